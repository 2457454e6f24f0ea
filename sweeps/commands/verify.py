"""`python -m sweeps verify`: finds damaged files in a store."""

from collections import Counter

from sweeps.engine.options import open_existing
from sweeps.engine.store.verify import Verified, verify_files

QUARANTINE = "quarantine"


def verify_store(results: str | None, repair: bool) -> int:
    """Read every file of the store once, count files and list bad ones; 1 if there are any.
    repair: move these to `quarantine/` below the folder; 0 then.

    Raises ValueError if the folder is not a store.
    """
    store = open_existing(results)
    count, bad = Counter[str](), list[Verified]()
    for found in verify_files(store.folder):
        count[found.kind] += 1
        if found.problem:
            bad.append(found)
            print(f"  {found.name}: {found.problem}", flush=True)
    kinds = ", ".join(f"{number} x {kind}" for kind, number in sorted(count.items()))
    print(f"{store.root}: {sum(count.values())} files ({kinds or 'none'}), {len(bad)} bad")
    if not bad or not repair:
        return 1 if bad else 0
    for found in bad:
        store.folder.move(found.name, f"{QUARANTINE}/{found.name}")
    print(
        f"moved to {store.folder.path(QUARANTINE)}; trials without another attempt will run again"
    )
    return 0

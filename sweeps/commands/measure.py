"""What is made from the weights of finished trials: `python -m sweeps measure`."""

import sys
import time
from collections import Counter
from collections.abc import Sequence

from pcore.checkpoint import unpack_model
from pcore.cli.models import choose_device
from pcore.config import TrialConfig, trial_id
from pcore.model import Transformer
from sweeps.commands.catalogue import chosen_views
from sweeps.engine.arithmetic import process_settings
from sweeps.engine.options import open_store
from sweeps.engine.spec import Scale
from sweeps.engine.store import mechanisms
from sweeps.engine.store.folder import Folder
from sweeps.engine.store.store import Store
from sweeps.engine.trial.analyse import write_diagnosis

NUM_THREADS = 1  # more only wait for each other at these sizes
GONE, REFUSED, CHANGED = "without weights", "with refused weights", "of other code than now"
SAID = ("measured now", "before", GONE, REFUSED, CHANGED)


def measure_trials(
    results: str | None,
    sweeps: Sequence[str],
    scale: Scale | None,
    num_examples: int,
    device: str,
    force: bool,
    trust_code: bool = False,
) -> int:
    """Analyse the last models of finished trials of these sweeps (none = all) at this scale (None =
    all): attention and causes of failure, on `num_examples` examples of each length. force: also
    those that were analysed. trust_code: import own code that weights name. 1 if some weights were
    refused.
    """
    store, device = open_store(results), str(choose_device(device))
    trials, folder, counts = _trained(store, sweeps, scale), store.folder, Counter[str]()
    done = set() if force else _analysed(folder)
    for name in trials:
        began, what = time.monotonic(), "before"
        if name not in done:
            found = _open(folder, name, trust_code)
            what = found if isinstance(found, str) else "measured now"
            if not isinstance(found, str):
                model, config = found
                with process_settings(NUM_THREADS):
                    write_diagnosis(folder, name, model.to(device), config, num_examples)
                print(f"  {name}  ({time.monotonic() - began:.1f} s)", flush=True)
        counts[what] += 1
    said = ", ".join(f"{counts[what]} {what}" for what in SAID)
    print(f"{len(trials)} trained models: {said}; {folder.path(mechanisms.FOLDER)}")
    return 1 if counts[REFUSED] else 0


def _trained(store: Store, sweeps: Sequence[str], scale: Scale | None) -> list[str]:
    """The finished trials but those of constructed models: the theorem says what those do."""
    views = chosen_views(store, sweeps, scale)
    columns = (store.load_view(*view).column("trial_id") for view in views)
    trials = dict.fromkeys(name for column in columns for name in column.to_pylist())
    visible = store.visible()
    ok = [name for name in trials if name in visible and visible[name].status == "ok"]
    shards = [visible[name] for name in ok]
    kinds = store.load_shards(shards, "trial", ["trial_id", "model.kind"]).to_pylist()
    built = {row["trial_id"] for row in kinds if row["model.kind"] == "constructed"}
    return [name for name in ok if name not in built]


def _analysed(folder: Folder) -> set[str]:
    """The trials with a file that is sound and not of an analysis that failed."""
    found = {name: mechanisms.read(folder, file) for name, file in mechanisms.names(folder).items()}
    kinds = {name: rows.column("kind") for name, rows in found.items() if rows is not None}
    return {name for name, kind in kinds.items() if "error" not in kind.to_pylist()}


def _open(folder: Folder, name: str, trust_code: bool) -> tuple[Transformer, TrialConfig] | str:
    """The last model of a trial, or what became of it."""
    file = f"checkpoints/{name}/last.pt"
    try:
        model, config = unpack_model(folder.read(file), file, trust_code=trust_code)
        return (model, config) if trial_id(config) == name else CHANGED
    except FileNotFoundError:
        return GONE
    except ValueError as error:  # damaged, or own code that is not trusted
        print(f"  {error}", file=sys.stderr)
        return REFUSED

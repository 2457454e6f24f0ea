"""Whatever happens to the files of a store: no traceback, and what is not named has not changed."""

import hashlib
import os
import shutil
from collections import Counter
from pathlib import Path

import pytest

from pcore.checkpoint import unpack_state
from sweeps.__main__ import main
from sweeps.engine.store import mechanisms
from sweeps.engine.store.seal import BadFile
from sweeps.engine.store.store import Store
from sweeps.engine.trial.running import Observer
from tests.support.rows.mutations import CONFIGS, IDS, Mutator, make_store

MUTATIONS = int(os.environ.get("MUTATIONS", "0"))  # for more than CI has time for
STATE = f"checkpoints/{IDS[0]}/state.pt"


def observe(root: Path) -> dict[str, object]:
    """What readers draw from a store, by the file that it comes from."""
    store, seen = Store(root), dict[str, object]()
    rows = store.load().to_pylist()
    for name in IDS:
        seen[f"trials/{name[:2]}/{name}"] = [row for row in rows if row["trial_id"] == name]
        seen[f"mechanism/{name[:2]}/{name}"] = mechanisms.load(store.folder, [name]).to_pylist()
    for (sweep, scale), view in store.views().items():
        seen[f"views/{sweep}-{scale}"] = view.to_pylist()
    try:
        data = store.folder.read(STATE)
        if state := unpack_state(data, CONFIGS[0]):
            seen[STATE] = (state["step"], state["weights"].tolist())
    except (FileNotFoundError, BadFile):
        pass
    Observer(store.folder).look()
    return seen


def tree(root: Path) -> dict[str, str]:
    """What is there, links as links."""
    return {
        str(file.relative_to(root)): hashlib.sha256(file.read_bytes()).hexdigest()
        if file.is_file() and not file.is_symlink()
        else str(file.is_symlink())
        for file in root.rglob("*")
    }


@pytest.mark.timeout(0 if MUTATIONS else 300)
def test_sixty_mutations_are_named_or_without_effect(tmp_path, capfd):
    base, outcome = tmp_path / "base", Counter[str]()
    mutator = Mutator(MUTATIONS, tmp_path / "theirs")
    make_store(base)
    whole = observe(base)
    for i in range(MUTATIONS or 60):
        root = tmp_path / f"store{i}"
        shutil.copytree(base, root)
        done = f"{i}: {mutator.mutate(root)}"
        capfd.readouterr()
        seen, named = observe(root), capfd.readouterr().err
        assert "Traceback" not in named
        changed = [name for name in whole if seen.get(name) != whole[name]]
        for name in changed:
            assert not seen.get(name), f"{done}: {name} has other rows"
            mentioned = name in named or f"{name.rpartition('/')[0]}:" in named
            mentioned |= f"{name.partition('/')[0]}:" in named or name == STATE
            assert mentioned, f"{done}: {name} is gone without a word"
        outcome["named" if changed or "left out" in named else "without effect"] += 1
        if i % 20 == 0:
            check_commands(root, done)
        shutil.rmtree(root)
    assert outcome["named"] >= 10
    with capfd.disabled():
        print(f"\n{outcome.total()} mutations: {dict(outcome)}, 0 silent")


def check_commands(root: Path, done: str) -> None:
    """Listing commands end with an exit code and change nothing."""
    before = tree(root)
    listing = (["status"], ["gc"], ["verify"], ["why", IDS[2]])
    for command in listing:
        assert main([*command, "--results", str(root)]) in (0, 1, 2), done
    assert tree(root) == before, done

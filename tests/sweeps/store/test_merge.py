"""A merge copies what is missing, the further one of two states, and what launches listed."""

from pathlib import Path

import pytest

from pcore.checkpoint import read_progress
from pcore.config import override
from sweeps.__main__ import main as sweeps_main
from sweeps.commands.merge import merge_stores
from sweeps.engine.store import mechanisms
from sweeps.engine.store.store import Store
from sweeps.engine.trial.attempt import Settings, run_attempt
from tests.support.sweeps.tiny import CONFIG, interrupt_attempt, make_sweep, run


def merge(source: Path, target: Path, no_weights: bool = False) -> int:
    return merge_stores(str(source), str(target), weights=not no_weights)


def files(folder: Path) -> dict[str, bytes]:
    kept = ("trials", "views", "mechanism", "checkpoints")
    found = (f for name in kept for f in (folder / name).rglob("*") if f.is_file())
    return {str(f.relative_to(folder)): f.read_bytes() for f in found}


def test_a_merge_copies_what_is_missing_and_changes_nothing(tmp_path, capfd):
    one, two = tmp_path / "one", tmp_path / "two"
    assert run(make_sweep(one={}), one) == 0
    assert run(make_sweep(one={}, wide={"model.d_ff": 128}), two, "--seeds", "1") == 0
    shown = Store(two).visible()  # by an attempt of its own
    name = next(name for name in Store(one).visible() if name not in shown)
    mechanisms.write(Store(one).folder, name, [])
    before = files(two)
    capfd.readouterr()
    assert merge(one, two) == 0
    told = capfd.readouterr().out
    assert "shards: 1 copied, 0 were there" in told
    assert "views: 1 grew" in told
    assert "mechanism files: 1 copied" in told
    assert "holds 3 finished trials" in told
    after = files(two)
    assert before.items() <= after.items()
    assert shown.items() <= Store(two).visible().items()
    assert name in mechanisms.names(Store(two).folder)
    assert merge(one, two) == 0
    told = capfd.readouterr().out
    assert "shards: 0 copied, 1 were there" in told
    assert "views: 0 grew" in told
    assert files(two) == after
    assert merge(one, tmp_path / "light", no_weights=True) == 0
    assert not (tmp_path / "light" / "checkpoints").exists()


def listed(folder: Path) -> list[dict]:
    rows = Store(folder).load_view("tiny", "smoke").to_pylist()
    return sorted(rows, key=lambda row: (row["cell_order"], row["seed"]))


def test_a_view_of_before_grows_too(tmp_path):
    """Its rows have no ids of cells: those of their trials count."""
    old, new = tmp_path / "old", tmp_path / "new"
    assert run(make_sweep(one={}), old, "--seeds", "1") == 0
    rows = listed(old)
    for file in (old / "views").iterdir():
        file.unlink()
    Store(old).write_view(rows)
    assert [file.name for file in (old / "views").iterdir()] == ["tiny-smoke.parquet"]
    merge(old, new)
    changed = make_sweep(one={"model.d_ff": 16}, renamed={})
    assert run(changed, new, "--seeds", "1@1") == 0
    found = {(row["cell"], row["seed"]) for row in listed(new)}
    assert found == {("one", 1), ("renamed", 1), ("renamed", 0)}


def test_of_two_states_the_further_one_is_kept(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    config = override(CONFIG, {"optim.num_steps": 170})
    for folder in (one, one, two):
        with pytest.raises(KeyboardInterrupt):
            interrupt_attempt(config, folder)
    (state,) = [name for name in files(one) if name.endswith("state.pt")]
    further, behind = files(one)[state], files(two)[state]
    assert (read_progress(further), read_progress(behind)) == ((100, 0), (50, 0))
    merge(two, one)
    assert files(one)[state] == further
    merge(one, two)
    assert files(two)[state] == further
    assert read_progress(further[:-100]) == (-1, 0)
    assert run_attempt(config, Settings(results=str(two))).status == "ok"
    merge(one, two)
    assert state not in files(two), "a finished trial needs none"


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("store", "store", "are both"),
        ("store", "papers", "papers is not a results folder"),
    ],
)
def test_folders_that_cannot_be_merged_are_refused(tmp_path, capfd, source, target, message):
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "notes.txt").write_text("mine")
    run_attempt(CONFIG, Settings(results=str(tmp_path / "store")))
    before = files(tmp_path / "store")
    assert sweeps_main(["merge", str(tmp_path / source), str(tmp_path / target)]) == 2
    assert message in capfd.readouterr().err
    assert files(tmp_path / "store") == before

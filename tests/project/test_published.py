"""The published rows (results/published) and the texts that quote them: nobody typed a number."""

import argparse
import hashlib
import io
import json
import shlex
import subprocess
import tarfile
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from analysis.fill import START, fill
from analysis.load import load_sweep
from pcore.config import flatten, trial_id, unflatten
from pcore.tasks import Addition
from sweeps import packing_ablation, packing_search
from sweeps.commands.catalogue import find_sweep
from sweeps.engine.changes import add_changes, change_sweeps, given_changes, is_script
from sweeps.engine.search.rounds import Replay
from sweeps.engine.spec import Sweep
from sweeps.engine.store.sources import KIND, hash_of, is_same_code, read_modules
from sweeps.engine.store.store import Store

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LAPTOP = ROOT / "results" / "published" / "laptop"
STORES = sorted(file.parent for file in (ROOT / "results" / "published").glob("*/views"))
VIEWS = [(store, *names) for store in STORES for names in Store(store).view_names()]


def test_published_files_are_those_that_were_published():
    """After a publication: results/published/README.md says how the list is written."""
    folder = ROOT / "results" / "published"
    listed = dict(
        reversed(line.split("  ")) for line in (folder / "SHA256SUMS").read_text().splitlines()
    )
    found = {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in folder.rglob("*.parquet")
    }
    assert found == listed


@pytest.mark.parametrize("page", [p for p in PAGES if START.search(p.read_text())], ids=str)
def test_tables_in_texts_are_those_of_the_published_rows(page, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert fill(page, draw=False) == page.read_text()


@pytest.mark.parametrize(("store", "sweep", "scale"), VIEWS, ids=str)
def test_published_rows_lead_to_configuration_sweep_and_commit(store, sweep, scale):
    view = Store(store).load_view(sweep, scale).to_pylist()
    rows = trials_of(store)
    planned = {cell.id: cell for cell in launched(sweep, view[0]["command"]).cells(scale)}
    finished = [member for member in view if member["trial_id"] in rows]
    assert finished
    for member in finished:
        row = rows[member["trial_id"]]
        config = unflatten(json.loads(row["config_json"]))
        assert trial_id(config) == member["trial_id"], "rows of an older numerics version"
        cell = planned[row["cell_id"]]  # its label says what was set; it did not always
        assert cell.label == member["cell"] or not is_script(sweep), "the sweep has changed since"
        assert (member["seed"], member["data_seed"]) == (config.seed, config.data_seed)
        flat = flatten(config)
        columns = {name for name in row if name in flat and row[name] is not None}
        assert {name: row[name] for name in columns} == {name: flat[name] for name in columns}
        assert columns >= {"seed", "data.max_length", "position.encoding"}
        assert row["status"] in ("ok", "diverged")
        # None: no git there, as on a borrowed machine. True: what was changed is not in the hash
        # of pcore's code, which the next test but one compares with that of the commit.
        assert row["git_dirty"] is not True or row["code_hash"].startswith(KIND)
        assert is_known_commit(row["git_commit"])


def launched(sweep: str, command: str | None) -> Sweep:
    """The sweep of a view, from its name, or from its command if it was named by hand."""
    if is_script(sweep):
        return find_sweep(sweep)
    assert command
    *_, script = flags = shlex.split(command.partition(" --")[0])
    parser = argparse.ArgumentParser()
    parser.add_argument("--name")
    add_changes(parser)
    given = parser.parse_args(shlex.split(command)[len(flags) :])
    (changed,) = change_sweeps([find_sweep(script)], given_changes(given))
    return changed


@cache
def trials_of(store: Path) -> dict[str, dict[str, Any]]:
    """The row of every trial of a store."""
    return {row["trial_id"]: row for row in Store(store).load(record="trial").to_pylist()}


@cache
def is_known_commit(commit: str) -> bool:
    """Whether this history has it; True where the history is not whole."""
    git = ["git", "-C", str(ROOT)]
    shallow = subprocess.run(
        [*git, "rev-parse", "--is-shallow-repository"], capture_output=True, text=True
    )
    if shallow.stdout.strip() != "false":
        return True
    return subprocess.run([*git, "merge-base", "--is-ancestor", commit, "HEAD"]).returncode == 0


@pytest.mark.slow  # hashes the code of many commits
@pytest.mark.parametrize("store", STORES, ids=str)
def test_published_rows_are_current_exactly_if_the_code_of_their_commit_is(store):
    columns = ["code_hash", "git_commit"]
    rows = Store(store).load(record="trial", columns=["trial_id", *columns]).to_pylist()
    for code_hash, commit in sorted({tuple(row[name] for name in columns) for row in rows}):
        if is_known_commit(commit) and (computed := hash_of_commit(commit)):
            assert is_same_code(code_hash) == is_same_code(computed), commit
            assert not code_hash.startswith(KIND) or code_hash == computed, commit


def hash_of_commit(commit: str) -> str | None:
    """The hash of the pcore folder of a commit; None where the history is not whole."""
    command = ["git", "-C", str(ROOT), "rev-parse", f"{commit}:pcore"]
    tree = subprocess.run(command, capture_output=True, text=True)
    return None if tree.returncode else hash_of_tree(tree.stdout.strip())


@cache
def hash_of_tree(tree: str) -> str:
    """Many commits have the same pcore."""
    command = ["git", "-C", str(ROOT), "archive", "--prefix=pcore/", tree]
    archive = subprocess.run(command, capture_output=True, check=True)
    packed = io.BytesIO(archive.stdout)
    with tarfile.open(fileobj=packed) as files, tempfile.TemporaryDirectory() as folder:
        files.extractall(folder, filter="data")
        return hash_of(read_modules(Path(folder) / "pcore"))


def test_the_published_search_gives_the_settings_of_the_packing_ablation():
    """Every arm has its winner, unless it began with settings that nothing beats on the near
    range. Nothing is left to run, although trial ids depend on seeds, digits and the order of
    questions.
    """
    search, store, begins = packing_search.SEARCH, Store(LAPTOP), packing_search.arms("laptop")
    replay = Replay(search, "laptop", search.budget_at("laptop"))
    assert not replay.next_cells(store)
    winners, failed = replay.conclude()
    assert not failed
    stored = json.loads(store.folder.read("searches/packing_search-laptop.json"))
    assert [won["tried"] for won in winners.values()] == [won["tried"] for won in stored.values()]
    assert winners.keys() == stored.keys()
    better = {
        label: (winner["optim.learning_rate"], winner["optim.weight_decay"])
        for label, winner in winners.items()
        if winner["near_score"] < winner["tried"][0]["near_score"]
    }
    assert better == packing_ablation.TUNED
    for label, winner in winners.items():
        first, optim = winner["tried"][0], begins[label].optim
        settings = (first["optim.learning_rate"], first["optim.weight_decay"])
        assert settings == (optim.learning_rate, optim.weight_decay)


# Numbers of the documents that no block fills in


def row_tokens(digits: int, problems: int = 1) -> int:
    """Tokens of a row of sums: BOS once, and EOS as a target only."""
    number = "9" * digits
    bos, eos = 1, 1
    return bos + problems * (Addition().encode(f"{number}+{number}").tokens.shape[1] - bos - eos)


@pytest.mark.parametrize(
    ("digits", "problems", "factor"), [(1000, 32, 2.4), (3000, 32, 7.2), (10_000, 128, 6.0)]
)
def test_factors_in_tokens(digits, problems, factor):
    assert round(row_tokens(digits) / row_tokens(12, problems), 1) == factor


def test_sums_of_ten_thousand_digits_that_are_right_and_zero_plus_zero():
    frame = load_sweep(LAPTOP, "ten_thousand_digits", "laptop").evaluation
    right = frame[frame["length"] == 10_000].groupby("cell")[["num_correct", "num_examples"]].sum()
    for problems, number in {32: 126, 64: 145, 128: 157}.items():
        assert tuple(right.loc[f"rows of {problems}"]) == (number, 160)
    frame = load_sweep(LAPTOP, "thousand_digits", "laptop").evaluation
    one_digit = frame[frame["length"] == 1]
    assert len(one_digit) == 8
    assert (one_digit["num_early_stop"] >= 10).all()


def test_wrong_answers_of_copy_and_reverse_lack_the_stop_alone():
    frame = load_sweep(LAPTOP, "copy_reverse", "laptop").evaluation
    rows = frame[frame["cell"].str.contains("coupling") & (frame["range"] == "test")]
    wrong = rows["num_examples"].sum() - rows["num_correct"].sum()
    assert round(100 * rows["num_missed_stop"].sum() / wrong) == 98

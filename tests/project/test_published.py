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

import numpy as np
import pandas as pd
import pytest

from analysis.fill import START, fill
from analysis.load import Results, cell_configs, load_sweep
from analysis.statistics.training import token_factor
from pcore.config import SEEDS, flatten, trial_id, unflatten
from sweeps import packing_ablation, packing_search
from sweeps.commands.catalogue import find_sweep
from sweeps.engine.changes import add_changes, change_sweeps, given_changes, is_script
from sweeps.engine.search.rounds import Replay
from sweeps.engine.spec import Sweep
from sweeps.engine.store.sources import KIND, hash_of, is_same_code, read_modules
from sweeps.engine.store.store import Store

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LAPTOP = "results/published/laptop"
STORES = sorted(str(v.parent.relative_to(ROOT)) for v in ROOT.glob("results/published/*/views"))


class Published(Store):
    """A store that reads no training losses, which are many and in no text."""

    def load_shards(self, shards, record=None, columns=None):
        return super().load_shards(() if record == "report" else shards, record, columns)


@cache
def stored(folder: str) -> Store:
    """A published store, whose files are listed and checked once for all tests."""
    store = Published(ROOT / folder)
    store.view_names = cache(store.view_names)
    return store


@cache
def load_published(folder: str, sweep: str, scale: str) -> Results:
    """A published sweep, from a path as the texts give it."""
    return load_sweep(stored(folder), sweep, scale)


VIEWS = [(store, *names) for store in STORES for names in stored(store).view_names()]


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
    monkeypatch.setattr("analysis.load.load_sweep", load_published)
    assert fill(page, draw=False) == page.read_text()


@pytest.mark.parametrize(("store", "sweep", "scale"), VIEWS, ids=str)
def test_published_rows_lead_to_configuration_sweep_and_commit(store, sweep, scale):
    results = load_published(store, sweep, scale)
    planned = {cell.id: cell for cell in launched(sweep, results).cells(scale)}
    configs = cell_configs(results)  # one of each cell: its runs differ in seeds alone
    finished = results.trials[results.trials["status"] != "missing"].to_dict("records")
    assert finished
    for row in finished:
        config = unflatten(configs[row["cell"]] | {name: row[name] for name in SEEDS})
        assert trial_id(config) == row["trial_id"], "rows of an older numerics version"
        cell = planned[row["cell_id"]]  # its label says what was set; it did not always
        assert cell.label == row["cell"] or not is_script(sweep), "the sweep has changed since"
        flat = flatten(config)
        columns = {name for name in row if name in flat and pd.notna(row[name])}
        assert {name: row[name] for name in columns} == {name: flat[name] for name in columns}
        assert columns >= {"seed", "data.max_length", "position.encoding"}
        assert row["status"] in ("ok", "diverged")
        # None: no git there, as on a borrowed machine. True: what was changed is not in the hash
        # of pcore's code, which the next test but one compares with that of the commit.
        assert row["git_dirty"] in (None, False) or row["code_hash"].startswith(KIND)
        assert is_known_commit(row["git_commit"])


def launched(sweep: str, results: Results) -> Sweep:
    """The sweep of a view, from its name, or from its command if it was named by hand."""
    if is_script(sweep):
        return find_sweep(sweep)
    command = results.view["command"].iloc[0]
    *_, script = flags = shlex.split(command.partition(" --")[0])
    parser = argparse.ArgumentParser()
    parser.add_argument("--name")
    add_changes(parser)
    given = parser.parse_args(shlex.split(command)[len(flags) :])
    (changed,) = change_sweeps([find_sweep(script)], given_changes(given))
    return changed


def is_known_commit(commit: str) -> bool:
    """Whether this history has it; True where the history is not whole."""
    return not history() or commit in history()


@cache
def history() -> set[str]:
    """The commits up to this one; none where some are not there."""
    git = ["git", "-C", str(ROOT)]
    asked = (["rev-parse", "--is-shallow-repository"], ["rev-list", "HEAD"])
    shallow, commits = (
        subprocess.run([*git, *words], capture_output=True, text=True).stdout for words in asked
    )
    return set(commits.split()) if shallow.strip() == "false" else set()


@pytest.mark.slow  # hashes the code of many commits
@pytest.mark.parametrize("store", STORES, ids=str)
def test_published_rows_are_current_exactly_if_the_code_of_their_commit_is(store):
    columns = ["code_hash", "git_commit"]
    rows = stored(store).load(record="trial", columns=["trial_id", *columns]).to_pylist()
    for code_hash, commit in sorted({tuple(row[name] for name in columns) for row in rows}):
        if is_known_commit(commit) and (computed := hash_of_commit(commit)):
            assert is_same_code(code_hash) == is_same_code(computed), commit
            assert not code_hash.startswith(KIND) or code_hash == computed, commit


def hash_of_commit(commit: str) -> str | None:
    """The hash of the pcore folder of a commit; None where the history is not whole."""
    git = ["git", "-C", str(ROOT)]
    tree = subprocess.run([*git, "rev-parse", f"{commit}:pcore"], capture_output=True, text=True)
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
    search, store = packing_search.SEARCH, stored(LAPTOP)
    replay = Replay(search, "laptop", search.budget_at("laptop"))
    assert not replay.next_cells(store)
    winners, failed = replay.conclude()
    assert not failed
    kept = json.loads(store.folder.read("searches/packing_search-laptop.json"))
    assert {k: won["tried"] for k, won in winners.items()} == {k: kept[k]["tried"] for k in kept}
    better = {
        label: (winner["optim.learning_rate"], winner["optim.weight_decay"])
        for label, winner in winners.items()
        if winner["near_score"] < winner["tried"][0]["near_score"]
    }
    assert better == packing_ablation.TUNED


# Numbers of the documents that no block fills in


def first_in_row(boards: Results, side: int) -> float:
    """Percent of the wrong cells, with separate tables, that begin a row below the first."""
    rows = boards.evaluation.query("cell == 'separate tables' and length == @side")
    wrong = np.sum(rows["wrong_at"].to_list(), axis=0)[: side * side]
    return 100 * wrong[side::side].sum() / wrong.sum()


def test_other_numbers_in_texts_are_those_of_the_rows_too():
    copied, many, long, boards = (
        load_published(LAPTOP, sweep, "laptop")
        for sweep in ("copy_reverse", "thousand_digits", "ten_thousand_digits", "minesweeper")
    )
    rows = copied.evaluation.query("range == 'test' and cell.str.contains('coupling')")
    wrong = rows["num_examples"].sum() - rows["num_correct"].sum()
    stopped = many.evaluation.query("length == 1")["num_early_stop"]
    assert (len(stopped), min(stopped)) == (8, 10)
    right = long.evaluation.query("length == 10_000").groupby("cell")["num_correct"].sum()
    three = "{}, {} and {}".format(*(right[f"rows of {count}"] for count in (32, 64, 128)))
    less = token_factor(cell_configs(many)["trained on 1-12"], 1_000)
    more = token_factor(cell_configs(long)["rows of 128"], 10_000)
    firsts = "{:.0f}, {:.0f} and {:.0f} %".format(*(first_in_row(boards, n) for n in (6, 7, 8)))
    for page, words in (
        ("README.md", f"{less:.1f} times the longest training sequence in tokens"),
        ("README.md", f"833 times, {more:.1f} in tokens"),
        ("docs/results.md", f"{100 * rows['num_missed_stop'].sum() / wrong:.0f} % of its wrong"),
        ("docs/results.md", f"{firsts} of the wrong cells"),
        ("docs/thousand_digits.md", "all eight stop early on the ten of them"),
        ("docs/thousand_digits.md", f"{three} of 160 sums of 10,000 digits are right"),
    ):
        assert words in " ".join((ROOT / page).read_text().split())

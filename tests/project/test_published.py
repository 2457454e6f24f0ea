"""The published rows (results/published) and the texts that quote them: nobody typed a number."""

import json
import subprocess
from pathlib import Path

import pytest

from analysis.fill import START, fill
from pcore.config import trial_id, unflatten
from sweeps.commands.catalogue import find_sweep
from sweeps.engine.store.store import Store

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
STORES = sorted(file.parent for file in (ROOT / "results" / "published").glob("*/views"))
VIEWS = [(store, *names) for store in STORES for names in Store(store).view_names()]


@pytest.mark.parametrize("page", [p for p in PAGES if START.search(p.read_text())], ids=str)
def test_tables_in_texts_are_those_of_the_published_rows(page, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert fill(page, draw=False) == page.read_text()


@pytest.mark.parametrize(("store", "sweep", "scale"), VIEWS, ids=str)
def test_published_rows_lead_to_configuration_sweep_and_commit(store, sweep, scale):
    opened = Store(store)
    view = opened.load_view(sweep, scale).to_pylist()
    rows = {r["trial_id"]: r for r in opened.load(record="trial").to_pylist()}
    planned = {cell.id: cell for cell in find_sweep(sweep).cells(scale)}
    finished = [member for member in view if member["trial_id"] in rows]
    assert finished
    for member in finished:
        row = rows[member["trial_id"]]
        config = unflatten(json.loads(row["config_json"]))
        assert trial_id(config) == member["trial_id"], "rows of an older numerics version"
        assert planned[row["cell_id"]].label == member["cell"], "the sweep has changed since"
        assert row["status"] in ("ok", "diverged")
        assert row["git_dirty"] is False
        assert is_known_commit(row["git_commit"])


def is_known_commit(commit: str) -> bool:
    """Whether this history has it; True where the history is not whole."""
    git = ["git", "-C", str(ROOT)]
    shallow = subprocess.run(
        [*git, "rev-parse", "--is-shallow-repository"], capture_output=True, text=True
    )
    if shallow.stdout.strip() != "false":
        return True
    return subprocess.run([*git, "merge-base", "--is-ancestor", commit, "HEAD"]).returncode == 0

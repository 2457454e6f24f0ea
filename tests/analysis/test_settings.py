"""Cells at paper scale have the published settings, or a reason where they differ."""

import dataclasses
import json
from functools import lru_cache

import pytest

from analysis.findings import Numbers
from analysis.load import load_sweep, relabel
from analysis.settings import (
    Line,
    compare,
    load_published,
    seed_layout,
    settings_table,
    unexplained,
)
from analysis.tables.render import render_markdown, render_text
from pcore.config import SEEDS, flatten
from sweeps.commands.catalogue import find_sweep, sweep_names
from sweeps.engine.spec import Cell
from sweeps.engine.store.store import Store
from sweeps.tables import TABLES
from tests.support.rows.example_store import make_evaluation, view_rows, write_trial
from tests.support.rows.finding_rows import make_world

OF_PAPERS = sorted(set(sweep_names()) - set(TABLES["beyond"]))  # what is ours alone has no settings


@lru_cache
def paper_cells(sweep: str) -> list[tuple[Cell, str]]:
    """Every cell of a sweep at paper scale, with the layout of the seeds of its runs."""
    seeds: dict[str, list[tuple[int, int]]] = {}
    for trial in find_sweep(sweep).trials("paper"):
        pair = (trial.config.seed, trial.config.data_seed)
        seeds.setdefault(trial.cell.label, []).append(pair)
    return [(cell, seed_layout(seeds[cell.label])) for cell in find_sweep(sweep).cells("paper")]


def compare_sweep(sweep: str) -> list[Line]:
    """The lines of all cells of a sweep."""
    cells = [(cell.label, flatten(cell.config), runs) for cell, runs in paper_cells(sweep)]
    return [line for cell in cells for line in compare(load_published(), sweep, *cell)]


@pytest.mark.parametrize("sweep", OF_PAPERS)
def test_every_cell_is_as_published_or_says_why_not(sweep):
    lines = compare_sweep(sweep)
    assert not unexplained(lines)
    assert {line.cell for line in lines} == {cell.label for cell, _ in paper_cells(sweep)}


def changed(name: str, value: object) -> object:
    """Another value of a field of a flat configuration, of the same type where it has one."""
    if name in ("eval.test_lengths", "eval.second_lengths"):
        return "301-303"
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int | float) else "other"


@pytest.mark.parametrize("sweep", OF_PAPERS)
def test_no_field_of_any_cell_can_change_without_being_found(sweep):
    """Exempt are fields of positions in arms without an encoding, where they have no effect."""
    published, missed = load_published(), []
    for cell, runs in paper_cells(sweep):
        flat = flatten(cell.config)
        for name in flat.keys() - set(SEEDS):
            wrong = flat | {name: changed(name, flat[name])}
            if not unexplained(compare(published, sweep, cell.label, wrong, runs)):
                missed.append((cell.label, name))
    unused = {
        (cell.label, name)
        for cell, _ in paper_cells(sweep)
        if cell.config.position.encoding == "none"
        for name in flatten(cell.config)
        if name.startswith("position.") and name != "position.encoding"
    }
    assert set(missed) == unused


def test_the_table_shows_differences_with_their_reasons_at_paper_scale(tmp_path):
    """Of minesweeper, with one run of each cell."""
    cells = {cell.label: [cell.config] for cell, _ in paper_cells("minesweeper")}
    for (config,) in cells.values():
        write_trial(Store(tmp_path), config, evaluations=make_evaluation(9.0, 1.0, 0))
    Store(tmp_path).write_view(view_rows(cells, sweep="minesweeper", scale="paper"))
    stored = load_sweep(tmp_path, "minesweeper", "paper")
    table = settings_table(stored)
    shown = {row[1].text: [entry.text for entry in row] for row in table.rows}
    assert shown["tested_to"][:4] == ["all", "tested_to", "15", "14"]
    assert "counting starts at 1" in shown["tested_to"][4]
    assert shown["runs"][4] == "NO REASON GIVEN"
    assert "batch_size" not in shown
    assert "batch 800" in table.notes[1]
    assert "15 rows hold boards" in render_markdown(table)
    assert max(map(len, render_text(table).splitlines())) < 400
    assert settings_table(dataclasses.replace(stored, scale="laptop")) is None
    assert settings_table(dataclasses.replace(stored, sweep="mine")) is None


# The guard of verdicts ----------------------------------------------------------------------------


def test_rows_are_judged_with_the_settings_of_the_script_alone():
    rows = make_world("rope_ablation", lambda *_: 0.0)

    def check(**changes: object) -> None:
        """The same rows, of trials whose stored configurations have these changes."""
        texts = [json.dumps(json.loads(text) | changes) for text in rows.trials["config_json"]]
        changed = dataclasses.replace(rows, trials=rows.trials.assign(config_json=texts))
        Numbers(changed).check(rows.cells)

    check()
    check(**{"eval.num_examples": 5000})
    with pytest.raises(ValueError, match="does not have the published settings: num_heads 4"):
        check(**{"model.num_heads": 4})
    names = {cell: {"coupled RoPE, not scaled": "new"}.get(cell, cell) for cell in rows.cells}
    renamed = relabel(rows, names)
    with pytest.raises(ValueError, match="'new' does not have the published settings: cell"):
        Numbers(renamed).check(["new"])
    Numbers(renamed).check(["RoPE, not scaled"])

"""Cells at paper scale have the published settings, or a reason where they differ."""

from collections import Counter
from functools import lru_cache

import pytest

from analysis.claims.hyperparameters import (
    FILE,
    Line,
    Published,
    compare_settings,
    load_published,
    settings_table,
    unexplained,
)
from analysis.load import load_sweep
from analysis.tables.render import render_files, render_text
from pcore.config import flatten, override
from sweeps.commands.catalogue import find_sweep, sweep_names
from sweeps.engine.spec import Cell
from sweeps.engine.store.store import Store
from sweeps.tables import TABLES
from tests.support.rows.example_store import make_evaluation, view_rows, write_trial

OF_PAPERS = sorted(set(sweep_names()) - set(TABLES["beyond"]))  # what is ours alone has no settings


@lru_cache
def paper_cells(sweep: str) -> list[tuple[Cell, int]]:
    """Every cell of a sweep at paper scale, with its number of runs."""
    trials = find_sweep(sweep).trials("paper")
    runs = Counter(trial.cell.label for trial in trials)
    return [(cell, runs[cell.label]) for cell in find_sweep(sweep).cells("paper")]


def compare(sweep: str, published: Published, **changes: object) -> list[Line]:
    """The lines of all cells of a sweep, with the same changes planted in each."""
    return [
        line
        for cell, runs in paper_cells(sweep)
        for line in published.compare(
            sweep, cell.label, flatten(override(cell.config, changes)), runs
        )
    ]


@pytest.mark.parametrize("sweep", OF_PAPERS)
def test_every_cell_is_as_published_or_says_why_not(sweep):
    lines = compare(sweep, load_published())
    assert not unexplained(lines)
    trained = [c for c, _ in paper_cells(sweep) if c.config.model.kind == "trained"]
    assert {line.cell for line in lines} == {cell.label for cell in trained}


def test_no_pattern_and_no_reason_is_stale():
    published, patterns, reasons = load_published(), set(), set()
    for sweep in OF_PAPERS:
        for line in compare(sweep, published):
            if line.differs:
                arm, _ = published.arm_of(sweep, line.cell)
                reasons.add((published.arms.index(arm), line.field))
        for cell, _ in paper_cells(sweep):
            arm, pattern = published.arm_of(sweep, cell.label)
            patterns.add((published.arms.index(arm), pattern))
    for i, arm in enumerate(published.arms):
        assert {pattern for index, pattern in patterns if index == i} == set(arm.cells)
        assert {name for index, name in reasons if index == i} - set(published.why) == set(arm.why)
    assert set(published.why) <= {name for _, name in reasons}


PLANTED = {
    "model.num_layers": 7,
    "model.num_heads": 3,
    "model.d_model": 256,
    "model.d_head": 96,
    "model.d_ff": 1024,
    "model.norm": "layer",
    "model.norm_placement": "pre",
    "model.attention_scale": "log-length",
    "optim.num_steps": 49_999,
    "optim.batch_size": 999,
    "optim.learning_rate": 2e-5,
    "optim.warmup_fraction": 0.02,
    "optim.final_lr_fraction": 0.0,
    "optim.beta2": 0.95,
    "optim.weight_decay": 0.1,
    "optim.grad_clip": 0.5,
    "position.max_position": 203,
    "position.start": "wrapped",
    "position.table_init": "orthogonal",
    "data.max_length": 29,
    "data.min_length": 2,
    "data.num_examples": 999_999,
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_wrong_setting_is_found(name):
    lines = unexplained(compare("depth_ablation", load_published(), **{name: PLANTED[name]}))
    found = {line.cell for line in lines}
    assert {"coupling, 1 layer", "coupling, 6 layers"} <= found
    without_positions = name.startswith("position.") and name != "position.encoding"
    assert ("NoPE, 6 layers" in found) is not without_positions


def test_too_few_runs_are_found():
    published, (cell, runs) = load_published(), paper_cells("depth_ablation")[0]
    (line,) = unexplained(
        published.compare("depth_ablation", cell.label, flatten(cell.config), runs - 1)
    )
    assert (line.field, line.published, line.ours) == ("runs", 8, 7)


def test_a_wrong_value_in_a_changed_copy_of_the_file_is_found(tmp_path):
    text, copy = FILE.read_text(), tmp_path / "copy.toml"
    before = "heads = 8\nd_head = 64\n\n[rows.hints]"
    assert text.count(before) == 1
    copy.write_text(text.replace(before, before.replace("64", "128")))
    lines = unexplained(compare("encoding_ablation", load_published(copy)))
    assert {(line.field, line.published, line.ours) for line in lines} == {("d_head", 128, 64)}
    assert "NoPE" in {line.cell for line in lines}


def test_a_reason_taken_out_of_a_changed_copy_is_missed(tmp_path):
    copy = tmp_path / "copy.toml"
    reason = next(line for line in FILE.read_text().splitlines() if 'why.tested_to = "15' in line)
    copy.write_text(FILE.read_text().replace(reason, ""))
    lines = unexplained(compare("minesweeper", load_published(copy)))
    assert {(line.published, line.ours) for line in lines} == {("15", "14")}


def test_a_cell_that_the_file_does_not_know_is_an_error():
    config = flatten(paper_cells("depth_ablation")[0][0].config)
    with pytest.raises(ValueError, match="no arm for the cell 'coupling, 7 layers'"):
        load_published().compare("depth_ablation", "coupling, 7 layers", config, 8)


@pytest.fixture
def stored(tmp_path):
    """Minesweeper at paper scale, one run of each cell."""
    cells = {cell.label: [cell.config] for cell, _ in paper_cells("minesweeper")}
    for (config,) in cells.values():
        write_trial(Store(tmp_path), config, evaluations=make_evaluation(9.0, 1.0, 0))
    Store(tmp_path).write_view(view_rows(cells, sweep="minesweeper", scale="paper"))
    return load_sweep(tmp_path, "minesweeper", "paper")


def test_rows_of_the_store_compare_as_the_script_does(stored):
    ours = {(line.cell, line.field): line.ours for line in compare_settings(stored)}
    script = compare("minesweeper", load_published())
    assert {(line.cell, line.field): line.ours for line in script if line.field != "runs"} == {
        key: value for key, value in ours.items() if key[1] != "runs"
    }


def test_the_table_shows_differences_with_their_reasons(stored):
    table = settings_table(stored)
    shown = {row[1].text: [entry.text for entry in row] for row in table.rows}
    assert shown["tested_to"][:4] == ["all", "tested_to", "15", "14"]
    assert "counting starts at 1" in shown["tested_to"][4]
    assert shown["runs"][4] == "NO REASON GIVEN"  # one run of each cell was stored
    assert "batch" not in shown
    assert "batch 800" in table.notes[1]
    assert "15 rows hold boards" in render_files(table)["md"]
    assert max(map(len, render_text(table).splitlines())) < 400


def test_other_scales_and_other_sweeps_have_no_such_table(stored):
    import dataclasses

    assert settings_table(dataclasses.replace(stored, scale="laptop")) is None
    assert settings_table(dataclasses.replace(stored, sweep="mine")) is None

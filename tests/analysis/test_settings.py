"""Cells at paper scale have the published settings, or a reason where they differ."""

import dataclasses
import json
from functools import lru_cache

import pytest

from analysis.findings import Numbers
from analysis.load import Results, load_sweep
from analysis.settings import (
    FILE,
    JOINED,
    OWN,
    SHORT,
    Line,
    Published,
    compare_settings,
    load_published,
    matching,
    seed_layout,
    settings_table,
    unexplained,
)
from analysis.tables.render import render_files, render_text
from pcore.config import SEEDS, TrialConfig, flatten, override
from pcore.tasks import TASKS
from sweeps.commands.catalogue import find_sweep, sweep_names
from sweeps.engine.spec import Cell, parse_seeds
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
            if not unexplained(published.compare(sweep, cell.label, wrong, runs)):
                missed.append((cell.label, name))
    unused = {
        (cell.label, name)
        for cell, _ in paper_cells(sweep)
        if cell.config.position.encoding == "none"
        for name in flatten(cell.config)
        if name.startswith("position.") and name != "position.encoding"
    }
    assert set(missed) == unused


def test_no_pattern_no_value_of_ours_and_no_reason_is_stale():
    published = load_published()
    patterns, reasons, stated = set(), set(), set()
    for sweep in OF_PAPERS:
        for line in compare(sweep, published):
            arm = published.arm_of(sweep, line.cell)
            index = published.arms.index(arm)
            patterns |= {(index, pattern) for pattern in matching(arm.cells, line.cell)}
            if line.differs:
                reasons.add((index, line.field))
                stated |= {
                    (index, pattern, line.field)
                    for pattern in matching(arm.ours, line.cell)
                    if arm.ours[pattern].get(line.field) == line.ours
                }
    for i, arm in enumerate(published.arms):
        assert {pattern for index, pattern in patterns if index == i} == set(arm.cells)
        assert {name for index, name in reasons if index == i} - set(published.why) == set(arm.why)
        ours = {(pattern, name) for pattern, values in arm.ours.items() for name in values}
        assert {(pattern, name) for index, pattern, name in stated if index == i} == ours
    assert set(published.why) <= {name for _, name in reasons}
    assert set(published.ours) <= {name for _, name in reasons}


def test_the_file_names_fields_of_configurations_only():
    published = load_published()
    fields = {*SHORT, *JOINED, *OWN, "runs", "source"} | {
        name
        for task in TASKS
        for name in flatten(override(TrialConfig(), {"task.name": task}))
        if name not in SHORT.values()
    }
    values = [*published.rows.values(), published.ours, published.why]
    for arm in published.arms:
        values += [arm.why, *arm.cells.values(), *arm.ours.values()]
    assert {name for each in values for name in each} <= fields


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
    "optim.beta1": 0.95,
    "optim.beta2": 0.95,
    "optim.eps": 1e-6,
    "optim.weight_decay": 0.1,
    "optim.grad_clip": 0.5,
    "position.max_position": 203,
    "position.start": "wrapped",
    "position.table_init": "orthogonal",
    "data.max_length": 29,
    "data.min_length": 2,
    "data.num_examples": 999_999,
    "position.encoding": "sinusoidal",
    "position.ids": "randomized",
    "position.level_tables": "separate",
    "position.id_scale_max": 4,
    "position.max_start": 100,
    "position.rotary_base": 1000.0,
    "position.test_policy": "random",
    "task.num_operands": 3,
    "task.min_operands": 2,
    "task.zero_pad": False,
    "task.reverse_query": True,
    "task.reverse_response": False,
    "task.random_hints": False,
    "task.scratchpad": True,
    "eval.checkpoints": ("last", "best"),
    "eval.test_lengths": tuple(range(100, 201, 5)),
    "eval.near_lengths": (31, 32),
    "eval.num_examples": 50,
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_wrong_setting_is_found(name):
    lines = unexplained(compare("depth_ablation", load_published(), **{name: PLANTED[name]}))
    found = {line.cell for line in lines}
    assert {"coupling, 1 layer", "coupling, 6 layers"} <= found
    without_positions = name.startswith("position.") and name != "position.encoding"
    assert ("NoPE, 6 layers" in found) is not without_positions


@pytest.mark.parametrize("seeds", ["7", "8", "2x4", "4x2,1@9"])
def test_other_layouts_of_seeds_are_found(seeds):
    published, (cell, _) = load_published(), paper_cells("depth_ablation")[0]
    layout = seed_layout(parse_seeds(seeds))
    (line,) = unexplained(
        published.compare("depth_ablation", cell.label, flatten(cell.config), layout)
    )
    assert (line.field, line.published, line.ours) == ("runs", "4x2", layout)


@pytest.mark.parametrize("seeds", ["1", "4", "2x2", "4x2", "8x1"])
def test_the_layout_of_seeds_is_read_back(seeds):
    assert seed_layout(parse_seeds(seeds)) == seeds
    assert seed_layout(parse_seeds("2x2")[:3]) == "3 pairs, no full grid"


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


def test_another_value_than_the_one_that_has_a_reason_is_found():
    for cell, runs in paper_cells("heads_ablation"):
        for heads in {1, 2, 4, 8} - {cell.config.model.num_heads}:
            flat = flatten(override(cell.config, {"model.num_heads": heads}))
            lines = unexplained(load_published().compare("heads_ablation", cell.label, flat, runs))
            assert [(line.field, line.ours) for line in lines] == [("heads", heads)]


def test_a_cell_that_the_file_does_not_know_is_an_error():
    config = flatten(paper_cells("depth_ablation")[0][0].config)
    with pytest.raises(ValueError, match="no arm for the cell 'coupling, 7 layers'"):
        load_published().compare("depth_ablation", "coupling, 7 layers", config, "4x2")


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
    assert settings_table(dataclasses.replace(stored, scale="laptop")) is None
    assert settings_table(dataclasses.replace(stored, sweep="mine")) is None


# The guard of verdicts ----------------------------------------------------------------------------


@lru_cache
def rope_rows() -> Results:
    """Rows of the sweep on RoPE at paper scale, all wrong answers."""
    return make_world("rope_ablation", lambda *_: 0.0)


def with_settings(results: Results, **changes: object) -> Results:
    """The same rows, of trials whose stored configurations have these changes."""
    texts = [json.dumps(json.loads(text) | changes) for text in results.trials["config_json"]]
    return dataclasses.replace(results, trials=results.trials.assign(config_json=texts))


def test_rows_with_the_settings_of_the_script_may_be_judged():
    Numbers(rope_rows()).check(rope_rows().cells)
    Numbers(with_settings(rope_rows(), **{"eval.num_examples": 5000})).check(rope_rows().cells)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("position.id_scale_max", 4),
        ("task.zero_pad", False),
        ("task.reverse_response", False),
        ("position.encoding", "sinusoidal"),
        ("position.rotary_base", 1000.0),
        ("optim.beta1", 0.95),
        ("eval.checkpoints", "last"),
        ("model.num_heads", 4),
    ],
)
def test_rows_with_any_other_setting_are_not_judged(name, value):
    with pytest.raises(ValueError, match="does not have the published settings"):
        Numbers(with_settings(rope_rows(), **{name: value})).check(
            ["coupled RoPE, IDs times 1 to 5"]
        )


def test_rows_of_a_cell_that_the_file_does_not_know_are_not_judged():
    results, old = rope_rows(), "coupled RoPE, not scaled"
    view, trials = (
        frame.assign(cell=frame["cell"].replace(old, "new"))
        for frame in (results.view, results.trials)
    )
    renamed = dataclasses.replace(results, view=view, trials=trials)
    with pytest.raises(ValueError, match="'new' does not have the published settings: cell"):
        Numbers(renamed).check(["new"])
    Numbers(renamed).check(["RoPE, not scaled"])

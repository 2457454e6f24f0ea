"""Rules that sweep scripts keep. What they expand to at every scale is in tests/snapshots/ids."""

import importlib
from itertools import product
from pathlib import Path

import pytest

from pcore.config import TrialConfig
from pcore.encodings.position_ids import num_levels
from pcore.evaluation import evaluation_lengths
from pcore.tasks.addition import Addition
from sweeps.commands.catalogue import find_sweep, sweep_names
from sweeps.engine.spec import Sweep, parse_seeds
from sweeps.tables import TABLES

FOLDER = Path(__file__).parents[2] / "sweeps"
OTHER_FILES = {"__init__", "__main__", "baseline", "tables"}
OTHER_FILES |= {"distractors", "minesweeper_ahead", "product_rows", "sum_rows"}  # our own code
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in OTHER_FILES)
SEARCHES = [name for name in SCRIPTS if "\nSEARCH = " in (FOLDER / f"{name}.py").read_text()]
SWEEPS = [name for name in SCRIPTS if name not in SEARCHES]


@pytest.mark.parametrize("name", SWEEPS)
def test_a_laptop_cell_has_four_runs_and_is_judged_as_it_was_trained(name):
    sweep: Sweep = importlib.import_module(f"sweeps.{name}").SWEEP
    assert len(parse_seeds(sweep.seeds["laptop"])) >= 4
    for cell in sweep.cells("laptop"):
        config = cell.config
        sums = isinstance(config.task, Addition) and config.task.num_operands == 2
        assert sums or config.eval.attention_factor == 1, cell.label
        levels = num_levels(config.task, config.position)
        shared = config.position.level_tables == "shared" and levels > 1
        has_table = config.position.encoding in ("learned", "residues", "mixture")
        assert not (shared and has_table and config.position.test_policy == "fixed"), cell.label


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_sweep_is_executable_by_itself(name):
    """`ray job submit sweeps/NAME.py` runs the file: it needs a shebang and the run bit."""
    path = Path(__file__).parents[2] / "sweeps" / f"{name}.py"
    assert path.read_text().startswith("#!/usr/bin/env python\n")
    assert path.stat().st_mode & 0o111


# Tables -------------------------------------------------------------------------------------------


def test_the_catalogue_and_the_paper_table_hold_every_sweep_once_and_no_search():
    assert sweep_names() == sorted(TABLES["paper"]) == SWEEPS
    assert len(set(TABLES["paper"])) == len(TABLES["paper"])
    assert not set(TABLES) & set(SWEEPS)  # a sweep's own name is a table too


# Sizes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SWEEPS)
def test_a_smoke_trial_is_a_second_of_work_at_most(name):
    for cell in find_sweep(name).cells("smoke"):
        task, data, optim = cell.config.task, cell.config.data, cell.config.optim
        trained = optim.num_steps * optim.batch_size * task.num_tokens(data.max_length)
        assert trained + _tested_tokens(cell.config) < 40_000, cell.label
        assert cell.config.model.d_model <= 32
        assert cell.config.model.num_layers <= 3


def _tested_tokens(config: TrialConfig) -> int:
    lengths = [n for values in evaluation_lengths(config).values() for n in values]
    seconds = config.eval.second_lengths or (None,)
    pairs = product(lengths, seconds)
    return config.eval.num_examples * sum(config.task.num_tokens(*pair) for pair in pairs)

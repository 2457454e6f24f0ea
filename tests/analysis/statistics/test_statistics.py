"""Statistics against closed forms, scipy and by hand."""

from collections.abc import Iterable

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from analysis.statistics import runs as statistics
from analysis.statistics.intervals import median_interval
from analysis.statistics.runs import wilson_interval
from analysis.statistics.training import length_shares
from pcore.tasks import Task
from pcore.tasks.addition import Addition
from pcore.tasks.minesweeper import Minesweeper
from pcore.tasks.multiplication import Multiplication
from pcore.tasks.strings import Copy, Parity


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_agrees_with_scipy(counts: tuple[int, int]):
    reference = binomtest(*counts).proportion_ci(0.95, method="wilson")
    assert wilson_interval(*counts) == pytest.approx(tuple(reference), abs=1e-12)


def l95_of(lengths: Iterable[int], curve: Iterable[float]) -> tuple[int, bool]:
    """The rule, a length at a time."""
    longest = 0
    for length, share in zip(lengths, curve, strict=True):
        if not share > 0.95:
            return longest, False
        longest = length
    return longest, True


def make_cells(tables: dict[str, np.ndarray], seeds: list[tuple[int, int]]) -> pd.DataFrame:
    """Evaluation rows of cells: runs in rows, lengths 2, 4, 6, ... in columns."""
    rows = [
        {"cell": cell, "cell_order": order, "trial_id": f"{cell}{seed}", "exact_match": value}
        | {"seed": seed[0], "data_seed": seed[1], "length": 2 * column + 2}
        for order, (cell, table) in enumerate(tables.items())
        for seed, curve in zip(seeds, table, strict=True)
        for column, value in enumerate(curve)
    ]
    common = {"status": "ok", "checkpoint": "last", "range": "test", "second_length": None}
    common |= {"num_examples": 200}
    return pd.DataFrame([common | row for row in rows]).astype({"second_length": "Int64"})


@pytest.mark.parametrize("num_runs", [2, 3, 5, 7, 12])
def test_l95_lies_in_its_interval_and_both_follow_from_the_curve(num_runs: int):
    """Curves that cross, so that the L95 of the median may exceed that of every run, in steps of
    1 %, so that some are at 95 % and not above it.
    """
    rng = np.random.default_rng(num_runs)
    cells = {
        f"{i}": rng.normal(1.02 - 0.02 * np.arange(6), 0.03, (num_runs, 6)).round(2)
        for i in range(30)
    }
    cells |= {"always": np.full((num_runs, 6), 1.0), "never": np.full((num_runs, 6), 0.5)}
    evaluation = make_cells(cells, [(i, i) for i in range(num_runs)])
    found = statistics.cell_l95(evaluation.sample(frac=1, random_state=0))
    assert list(found.index) == list(cells)
    for cell, row in found.iterrows():
        ends = [median_interval(column) for column in cells[str(cell)].T]
        lengths, medians = range(2, 13, 2), np.median(cells[str(cell)], axis=0)
        assert (row["l95"], row["l95_is_lower_bound"]) == l95_of(lengths, medians)
        assert row["l95_low"] == l95_of(lengths, [low for low, _ in ends])[0]
        assert row["l95_high"] == l95_of(lengths, [high for _, high in ends])[0]
        assert row["l95_low"] <= row["l95"] <= row["l95_high"]
    runs = statistics.run_l95(statistics.run_curves(evaluation)).sort_values(["cell_order", "seed"])
    assert runs[["l95", "l95_is_lower_bound"]].to_numpy().tolist() == [
        list(l95_of(lengths, curve)) for table in cells.values() for curve in table
    ]


def test_train_is_weighted_by_how_often_training_drew_each_length():
    rows = make_cells({"a": np.array([[1.0, 0.5, 0.0]])}, [(0, 0)])
    rows = rows.assign(range="train", num_examples=10, num_correct=10 * rows["exact_match"])
    train = statistics.train_exact_match(rows, {"a": {2: 0.1, 4: 0.3, 6: 0.6}})
    assert train["exact_match"].tolist() == pytest.approx([0.1 + 0.15])
    untested = statistics.train_exact_match(rows, {"a": {2: 0.1, 4: 0.3, 8: 0.6}})
    assert untested["exact_match"].tolist() == pytest.approx([(0.1 + 0.15) / 0.4])
    assert statistics.train_exact_match(rows, {}).empty


@pytest.mark.parametrize(
    ("task", "has_seconds"),
    [
        *((Addition(), False), (Addition(num_operands=3), False), (Copy(), False)),
        (Addition(num_operands=4, min_operands=2), True),
        (Addition(num_operands=4, min_operands=2, scratchpad=True), True),
        *((Multiplication(), False), (Parity(), False), (Minesweeper(), False)),
        *((Multiplication(scratchpad=True), True), (Multiplication(scratchpad=True), False)),
        (Minesweeper(), True),
    ],
    ids=str,
)
def test_shares_of_lengths_are_those_that_the_task_draws(task: Task, has_seconds: bool):
    found = length_shares(task, 3, 12, has_seconds)
    sizes = task.draw_sizes(50_000, 3, 12, torch.Generator().manual_seed(1))
    first_only = has_seconds or (isinstance(task, Multiplication) and not task.scratchpad)
    longest = sizes[:, 0] if first_only and not isinstance(task, Addition) else sizes.amax(dim=1)
    drawn = [float((longest == length).float().mean()) for length in found]
    assert list(found) == list(range(3, 13))
    assert list(found.values()) == pytest.approx(drawn, abs=0.007)

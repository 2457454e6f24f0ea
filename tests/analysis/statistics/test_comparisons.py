"""Comparisons against scipy, statsmodels and by hand."""

import re
from dataclasses import fields, replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.load import FORMATS
from analysis.statistics import intervals
from analysis.statistics.comparisons import adjust_holm, compare_arms, compare_results
from analysis.tables.comparison_table import comparison_table
from pcore.config import TrialConfig, override
from pcore.evaluation import make_test_set
from pcore.tasks.addition import Addition
from pcore.tasks.strings import Parity
from tests.support.rows.finding_rows import make_results, reach

CROSS = list(product(range(4), range(2)))
DIAGONAL = [(i, i) for i in range(8)]


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(st.lists(st.floats(0, 1) | st.just(float("nan")), max_size=12))
def test_holm_agrees_with_statsmodels_and_leaves_nan_out(p_values: list[float]):
    from statsmodels.stats.multitest import multipletests  # takes seconds

    p = np.array(p_values)
    known = ~np.isnan(p)
    adjusted = adjust_holm(p)
    assert np.isnan(adjusted[~known]).all()
    if known.any():
        reference = multipletests(p[known], method="holm")[1]
        assert adjusted[known].tolist() == pytest.approx(reference.tolist())


def make_rows(
    cell: str, order: int, exact_match: dict[tuple[int, int], float], **changes: Any
) -> pd.DataFrame:
    """Evaluation rows of a cell at length 10, a run for each (seed, data_seed)."""
    common = {"cell": cell, "cell_order": order, "status": "ok", "checkpoint": "last"}
    common |= {"range": "test", "length": 10, "second_length": None, "test_set": "ten"}
    common |= {"num_examples": 20, "outcomes": None}
    rows = [
        {"trial_id": f"{cell}{seed}", "seed": seed[0], "data_seed": seed[1], "exact_match": value}
        for seed, value in exact_match.items()
    ]
    frame = pd.DataFrame([common | row | changes for row in rows])
    return frame.astype({"second_length": "Int64", "outcomes": object})


def make_pair(
    ours: list[float], theirs: list[float], seeds: list[tuple[int, int]] = DIAGONAL, **changes: Any
) -> pd.DataFrame:
    """A reference "base" and an arm "arm"; changes are the arm's."""
    base = make_rows("base", 0, dict(zip(seeds, theirs, strict=False)))
    return pd.concat([base, make_rows("arm", 1, dict(zip(seeds, ours, strict=False)), **changes)])


def compare_one(evaluation: pd.DataFrame):
    """The only row of a comparison at length 10."""
    (_, row) = next(compare_arms(evaluation, 10).iterrows())
    return row


exact = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])
some_runs = [
    st.dictionaries(st.sampled_from(seeds), exact, min_size=1) for seeds in (CROSS, DIAGONAL)
]


@settings(max_examples=25, deadline=None)
@given(st.one_of(*(st.tuples(runs, runs) for runs in some_runs)))
def test_runs_of_the_same_seeds_pair_and_the_statistics_are_those_of_their_differences(sides):
    """Of which the median is not the difference of medians."""
    theirs, ours = sides
    evaluation = pd.concat([make_rows("base", 0, theirs), make_rows("arm", 1, ours)])
    row = compare_one(evaluation)
    assert (row["cell"], row["lengths"]) == ("arm", "10")
    assert (row["n_b"], row["n_a"]) == (len(ours), len(theirs))
    seeds = sorted(ours.keys() & theirs.keys())
    is_paired = len(seeds) == min(len(ours), len(theirs))
    assert row["pairing"] == ("paired" if is_paired else "seeds not shared")
    assert row["n_pairs"] == (len(seeds) if is_paired else 0)
    if is_paired:
        differences = [ours[seed] - theirs[seed] for seed in seeds]
        assert row["difference_median"] == np.median(differences)
        assert (row["low"], row["high"]) == intervals.median_interval(differences, seeds)
        assert row["interval"] == intervals.interval_kind(len(seeds), seeds)
        signs = np.sign(differences).tolist()
        counts = [row[name] for name in ("wins", "ties", "losses")]
        assert counts == [signs.count(sign) for sign in (1, 0, -1)]
        assert row["p"] == row["p_holm"] == intervals.sign_test(differences, seeds)
        assert row["least_p"] == intervals.median_floor(len(seeds), seeds)


def test_another_or_an_unknown_test_set_is_not_paired_and_says_so():
    ours, theirs = [0.9, 0.8, 0.85, 0.95, 0.99], [0.1, 0.2, 0.15, 0.3, 0.25]
    row = compare_one(make_pair(ours, theirs, test_set="other", outcomes=b"\xff"))
    assert (row["pairing"], row["n_pairs"]) == ("other test sets", 0)
    assert row["p"] == row["p_holm"] == row["least_p"] == pytest.approx(2 / 252)
    assert pd.isna(row["wins"])
    assert pd.isna(row["num_gained"])
    assert row["difference_median"] == pytest.approx(0.7)
    assert row["low"] < 0.7 < row["high"]
    assert row["interval"] == "order statistics"
    for unknown in (None, ""):
        rows = make_pair([0.9, 0.8], [0.5, 0.6]).assign(test_set=unknown)
        assert compare_one(rows)["pairing"] == "other test sets"


def test_formats_of_the_same_questions_pair_example_by_example():
    """Other tokens, hence another test set, but the same numbers in the same order."""
    right, wrong = (np.packbits([bit] * 20).tobytes() for bit in (1, 0))
    evaluation = make_pair([1.0, 1.0], [0.0, 0.0], test_set="other").assign(asked="20 sums")
    evaluation["outcomes"] = [right if cell == "arm" else wrong for cell in evaluation["cell"]]
    row = compare_one(evaluation)
    assert (row["pairing"], row["wins"], row["num_gained"]) == ("paired", 2, 40)
    evaluation.loc[evaluation["cell"] == "arm", "asked"] = "20 other sums"
    assert compare_one(evaluation)["pairing"] == "other test sets"


def read_sum(task: Addition, query: str) -> list[int]:
    """The numbers of a query, whatever its format."""
    if task.index_hints:
        query = re.sub("[a-z][0-9]?(?=[0-9])", "", query)
    numbers = query.split("+")
    return [int(text[::-1] if task.reverse_query else text) for text in numbers]


FORMATTED = [
    Addition(zero_pad=pad, **order)
    for pad in (True, False)
    for order in ({}, {"reverse_query": True}, {"reverse_response": False})
] + [Addition(index_hints=True, num_hints=20), Addition(scratchpad=True)]


@pytest.mark.parametrize(("length", "second"), [(1, None), (5, None), (9, None), (4, 3)])
def test_formats_of_addition_ask_the_same_numbers_in_the_same_order(
    length: int, second: int | None
):
    """What lets `analysis.load.FORMATS` call their questions equal. second: with and without a
    scratchpad, several operands."""
    tasks = FORMATTED
    if second:
        many = {"num_operands": second, "min_operands": 2}
        tasks = [Addition(scratchpad=scratchpad, **many) for scratchpad in (True, False)]
    asked = []
    for task in tasks:
        config = override(TrialConfig(), {"eval.num_examples": 30})
        tokens = make_test_set(replace(config, task=task), length, second).tokens
        asked.append([read_sum(task, task.decode(row)[0]) for row in tokens])
    assert asked[1:] == asked[:-1]
    assert len(asked[0]) == 30
    assert len(asked[0][0]) == (second or 2)
    if not second:
        varied = {f.name for t in tasks for f in fields(t) if getattr(t, f.name) != f.default}
        assert {f"task.{name}" for name in varied} <= {*FORMATS["addition"]}


def test_parity_with_and_without_a_scratchpad_asks_the_same_bits():
    sets = [
        make_test_set(replace(TrialConfig(), task=Parity(scratchpad=scratchpad)), 7).tokens
        for scratchpad in (True, False)
    ]
    assert sets[0][:, :9].tolist() == sets[1][:, :9].tolist()
    assert FORMATS["parity"] == ("task.scratchpad",)


def test_a_diverged_run_is_a_loss_on_any_test_set():
    """Its rows are made from another run's: their test set and outcomes say nothing."""
    right = np.packbits(np.ones(20, dtype=bool)).tobytes()
    evaluation = make_pair([1.0, 0.0], [1.0, 1.0]).assign(outcomes=right)
    last = (evaluation["cell"] == "arm") & (evaluation["seed"] == 1)
    evaluation.loc[last, ["status", "test_set"]] = ["diverged", "other"]
    row = compare_one(evaluation)
    assert (row["pairing"], row["wins"], row["ties"], row["losses"]) == ("paired", 0, 1, 1)
    assert (row["num_gained"], row["num_lost"]) == (0, 20)
    evaluation.loc[evaluation["cell"] == "arm", ["status", "test_set"]] = ["diverged", "other"]
    assert compare_one(evaluation)["pairing"] == "paired"
    evaluation["status"] = "diverged"
    row = compare_one(evaluation.assign(outcomes=None, exact_match=0.0))
    assert (row["pairing"], row["ties"]) == ("paired", 2)
    assert (row["num_gained"], row["num_lost"]) == (0, 0)


def test_examples_of_pairs_are_counted_where_both_have_single_outcomes():
    evaluation = make_pair([0.9, 0.8, 0.7], [0.5, 0.6, 0.7])
    for column in (evaluation.drop(columns="outcomes"), evaluation):
        assert pd.isna(compare_one(column)["num_gained"])
    sides = np.random.default_rng(0).random((2, 20)) < [[0.3], [0.7]]
    theirs, ours = (np.packbits(side).tobytes() for side in sides)
    evaluation["outcomes"] = [theirs, theirs, None, ours, b"", ours]
    row = compare_one(evaluation)  # seed 0 only: the others lack one side
    gained, lost = (sides[1] & ~sides[0]).sum(), (sides[0] & ~sides[1]).sum()
    assert (row["num_gained"], row["num_lost"]) == (gained, lost)
    assert gained != lost


def test_examples_of_several_second_lengths_pair_one_to_one():
    parts = []
    for second in (1, 3):
        part = make_pair([1.0], [0.5]).assign(test_set=f"10-{second}")
        part["second_length"] = pd.array([second] * 2, dtype="Int64")
        part["outcomes"] = [np.packbits([1, 0] * 10).tobytes(), np.packbits([1] * 20).tobytes()]
        parts.append(part)
    parts[0]["exact_match"] = [0.5, 0.9]  # the least over second lengths counts
    row = compare_one(pd.concat(parts))
    assert (row["num_gained"], row["num_lost"]) == (20, 0)
    assert row["difference_median"] == pytest.approx(0.9 - 0.5)
    lacking = pd.concat([parts[0], parts[1][parts[1]["cell"] == "base"]])
    assert compare_one(lacking)["difference_median"] == pytest.approx(0.9 - 0.5)
    parts[0]["exact_match"], parts[1]["exact_match"] = [0.5, 0.5], [0.6, 0.9]
    assert compare_one(pd.concat(parts))["verdict"] == "too few runs"  # not "equal"


def test_one_pair_has_no_interval_and_no_runs_have_no_test():
    """Although the arm has more runs than the one that pairs."""
    evaluation = make_pair([0.9, 0.8], [0.5])
    frame = compare_arms(evaluation, 10, cells=["base", "arm", "empty"])
    assert frame["interval"].tolist() == ["none", "none"]
    table = comparison_table(frame, "t")
    heads = [head.text for head in table.header]
    shown = [dict(zip(heads, row, strict=True)) for row in table.rows]
    assert [(*row["B − A"], row["pairs"].text) for row in shown] == [
        ("+40.0", "", "1"),
        ("–", "", "0 vs 1"),
    ]
    assert "Not paired, no runs: empty." in table.notes
    assert [row["verdict"].text for row in shown] == ["too few runs", "only in A"]


def test_p_are_corrected_for_all_rows_and_too_few_seeds_show():
    """Eight pairs decide between six arms but not seven; of a cross, they decide nothing."""

    def compare(seeds: list[tuple[int, int]], arms: int) -> pd.DataFrame:
        rows = [make_rows("base", 0, dict.fromkeys(seeds, 0.5))]
        rows += [make_rows(f"arm {i}", i, dict.fromkeys(seeds, 0.9)) for i in range(1, arms + 1)]
        return compare_arms(pd.concat(rows), 10)

    six = compare(DIAGONAL, 6)
    assert six["p_holm"].tolist() == pytest.approx([6 * 2 * 0.5**8] * 6)
    assert ("p", "Holm") in comparison_table(six, "t").header
    assert set(six["verdict"]) == {"B higher"}
    seven = compare(DIAGONAL, 7)
    assert set(seven["verdict"]) == {"too few runs"}
    table = comparison_table(seven, "t")
    assert "p" not in [head.text for head in table.header]
    assert table.notes[1].endswith("No column of p: too few runs in every row that has one.")
    crossed = compare(CROSS, 1)
    assert crossed["least_p"][0] == 1 - intervals.cover(8, CROSS).coverage > 0.06


def test_a_result_set_equals_itself_and_differs_in_one_cell():
    curve = {8: 1.0, 12: 0.5, 14: 0.0}
    a = make_results({"one": [curve] * 6, "two": [curve] * 6})
    same = compare_results(a, a)
    assert (list(same["cell"]), list(same["verdict"])) == (["one", "two"], ["equal"] * 2)
    b = make_results({"one": [curve] * 6, "two": [curve | {14: 1.0}] * 6})
    (row,) = compare_results(a, b).query("verdict != 'equal'").to_dict("records")
    assert (row["cell"], row["n_a"], row["n_b"], row["n_pairs"]) == ("two", 6, 6, 6)
    assert row["difference_median"] > 0
    assert row["verdict"] == "too few runs"  # six pairs and two cells
    (at,) = compare_results(a, b, by_length=True).query("verdict != 'equal'").to_dict("records")
    assert (at["lengths"], at["median_b"]) == ("14", 1.0)
    assert np.isnan(at["p"])


def test_cells_and_runs_of_one_side_only():
    a = make_results({"same": [reach(8)] * 3, "fewer": [reach(8)] * 2, "gone": [reach(8)]})
    b = make_results({"same": [reach(8)] * 3, "fewer": [reach(8)] * 3})
    assert list(compare_results(a, b)["verdict"]) == ["equal", "other runs", "only in A"]
    assert list(compare_results(b, a)["verdict"]) == ["equal", "other runs", "only in B"]


def test_a_clear_difference_of_enough_runs_is_called_higher_or_lower():
    a, better = (make_results({"a": [reach(8, beyond)] * 8}) for beyond in (0.2, 0.6))
    assert compare_results(a, better)["verdict"].tolist() == ["B higher"]
    assert compare_results(better, a)["verdict"].tolist() == ["B lower"]
    rows = better.evaluation.assign(test_set="other")
    row = compare_results(a, replace(better, evaluation=rows)).iloc[0]
    assert (row["pairing"], row["verdict"]) == ("other test sets", "B higher")


@pytest.mark.parametrize("test_set", ["ten", "other"])
def test_wins_among_many_ties_are_wins(test_set):
    seeds = [(i, i) for i in range(15)]
    row = compare_one(make_pair([0.0] * 8 + [0.5] * 7, [0.0] * 15, seeds, test_set=test_set))
    assert (row["difference_median"], row["verdict"]) == (0, "B higher")

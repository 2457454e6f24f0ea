"""Comparisons against scipy, statsmodels and by hand."""

import math
import re
from dataclasses import fields, replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import example as example_of
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, binomtest
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

from analysis.load import FORMATS, Results
from analysis.statistics import comparisons, intervals
from analysis.statistics.comparisons import (
    adjust_holm,
    compare_arms,
    compare_results,
    mcnemar_test,
    sign_test,
)
from analysis.tables.comparison_table import arms_table
from pcore.config import TrialConfig, override
from pcore.evaluation import make_test_set
from pcore.tasks.addition import Addition
from pcore.tasks.strings import Parity
from tests.support.rows.example_store import example

CROSS = list(product(range(4), range(2)))
DIAGONAL = [(i, i) for i in range(8)]
count = st.integers(0, 60)


@settings(deadline=None)
@given(count, count)
def test_sign_test_agrees_with_scipy(wins: int, losses: int):
    expected = binomtest(wins, wins + losses).pvalue if wins + losses else 1.0
    assert sign_test(wins, losses) == pytest.approx(expected, rel=1e-9)


@settings(deadline=None)
@given(count, count)
def test_mcnemar_of_one_pair_agrees_with_statsmodels(gained: int, lost: int):
    reference = mcnemar([[5, gained], [lost, 7]], exact=True)
    assert mcnemar_test([(gained, lost)])[0] == pytest.approx(reference.pvalue, rel=1e-9)


def count_tail(least: int, num_trials: int) -> float:
    """P(X >= least) in whole numbers. (scipy's `binom.sf` has 0 where half ** num_trials is 0.)"""
    if 2 * least <= num_trials:
        return 1 - count_tail(num_trials - least + 1, num_trials)
    total, term = 0, math.comb(num_trials, least)
    for k in range(least, num_trials + 1):
        total += term
        term = term * (num_trials - k) // (k + 1)
        if term.bit_length() + 80 < total.bit_length():  # and each term is smaller than the last
            break
    return total / 2**num_trials


@settings(deadline=None)
@given(st.integers(0, 100_000), st.floats(0, 1))
@example_of(1075, 0.96875)
def test_binomial_tail_of_many_examples_agrees_with_whole_numbers(num_trials: int, share: float):
    least = round(share * (num_trials + 1))
    expected = count_tail(least, num_trials)
    assert comparisons.binomial_tail(least, num_trials) == pytest.approx(
        expected, rel=1e-7, abs=1e-300
    )


@settings(max_examples=15, deadline=None)
@given(st.lists(st.floats(0, 1) | st.just(float("nan")), max_size=12))
def test_holm_agrees_with_statsmodels_and_leaves_nan_out(p_values: list[float]):
    p = np.array(p_values)
    known = ~np.isnan(p)
    adjusted = adjust_holm(p)
    assert np.isnan(adjusted[~known]).all()
    if known.any():
        reference = multipletests(p[known], method="holm")[1]
        assert adjusted[known].tolist() == pytest.approx(reference.tolist())


def test_mcnemar_of_several_pairs_needs_a_majority_of_one_direction():
    one = binom.sf(9, 10, 0.5)  # ten of ten in one direction
    assert mcnemar_test([(10, 0), (10, 0), (0, 10)]) == (pytest.approx(2 * 2 * one), "cell")
    assert mcnemar_test([(0, 10), (10, 0), (0, 10)])[1] == "reference"
    assert mcnemar_test([(10, 0), (10, 0)])[0] == pytest.approx(2 * one)
    assert mcnemar_test([(10, 0)] * 8)[0] == pytest.approx(2 * 4 * one)
    assert mcnemar_test([(10, 0), (0, 10)]) == (1, None)
    assert mcnemar_test([(900, 0), (5, 5), (5, 5)])[0] == 1  # one pair is no majority
    assert mcnemar_test([(0, 0)]) == (1, None)
    assert np.isnan(mcnemar_test([])[0])


def test_summed_counts_would_find_what_is_not_there():
    """Eight pairs whose outcomes are the same examples over and over, neither cell better."""
    gained = np.random.default_rng(0).binomial(40, 0.5, size=400)
    found = [mcnemar_test([(int(g), 40 - int(g))] * 8)[0] <= 0.05 for g in gained]
    summed = [sign_test(8 * int(g), 8 * (40 - int(g))) <= 0.05 for g in gained]
    assert np.mean(found) <= 0.05 < 0.3 < np.mean(summed)


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


def compare_one(evaluation: pd.DataFrame, lengths: int | list[int] = 10, **kwargs: Any):
    """The only row of a comparison."""
    frame = compare_arms(evaluation, lengths, **kwargs)
    assert len(frame) == 1
    return frame.iloc[0]


def test_pairs_by_hand():
    row = compare_one(make_pair([0.9, 0.8, 0.5, 0.6], [0.7, 0.8, 0.6, 0.1]))
    assert (row["cell"], row["reference"], row["length"]) == ("arm", "base", 10)
    assert (row["pairing"], row["is_paired"], row["n_pairs"]) == ("paired", True, 4)
    assert (row["wins"], row["ties"], row["losses"]) == (2, 1, 1)
    assert row["difference_median"] == pytest.approx(0.1)
    assert (row["low"], row["high"]) == pytest.approx((-0.1, 0.5))
    assert row["interval"] == "range"
    assert row["p_sign"] == row["p_holm"] == 1
    assert row["least_p"] == row["least_p_holm"] == 2 * 0.5**4
    assert np.isnan(row["p_permutation"])


def test_the_median_of_differences_is_not_the_difference_of_medians():
    row = compare_one(make_pair([0.1, 0.5, 0.9], [0.5, 0.9, 0.1]))
    assert row["difference_median"] == pytest.approx(-0.4)
    assert row["median"] == row["median_reference"] == 0.5


@pytest.mark.parametrize(
    ("seeds", "kind"), [(CROSS, "crossed order statistics"), (DIAGONAL, "order statistics")]
)
def test_the_interval_is_that_of_the_differences(seeds: list[tuple[int, int]], kind: str):
    ours, theirs = np.random.default_rng(1).uniform(size=(2, 8))
    ours += [0, 0.8] * 4  # the data seed matters
    row = compare_one(make_pair(list(ours), list(theirs), seeds))
    assert row["interval"] == kind
    expected = intervals.median_interval(ours - theirs, seeds)
    assert (row["low"], row["high"]) == pytest.approx(expected)


def test_only_common_seeds_pair():
    evaluation = make_pair([0.9, 0.8, 0.7], [0.5, 0.6, 0.7])
    missing = evaluation[(evaluation["cell"] != "base") | (evaluation["seed"] != 1)]
    row = compare_one(missing)
    assert (row["n"], row["n_reference"], row["n_pairs"]) == (3, 2, 2)
    assert row["difference_median"] == pytest.approx(0.2)


def test_another_test_set_is_not_paired_and_says_so():
    ours, theirs = [0.9, 0.8, 0.85, 0.95, 0.99], [0.1, 0.2, 0.15, 0.3, 0.25]
    row = compare_one(make_pair(ours, theirs, test_set="other", outcomes=b"\xff"))
    assert (row["pairing"], row["is_paired"], row["n_pairs"]) == ("other test sets", False, 0)
    assert row["p_permutation"] == row["p_holm"] == row["least_p"] == pytest.approx(2 / 252)
    assert np.isnan(row["p_sign"])
    assert pd.isna(row["wins"])
    assert row["num_mcnemar"] == 0
    assert row["difference_median"] == pytest.approx(0.7)
    assert row["low"] < 0.7 < row["high"]
    assert row["interval"] == "order statistics"


def test_formats_of_the_same_questions_pair_example_by_example():
    """Other tokens, hence another test set, but the same numbers in the same order."""
    right, wrong = (np.packbits([bit] * 20).tobytes() for bit in (1, 0))
    evaluation = make_pair([1.0, 1.0], [0.0, 0.0], test_set="other").assign(asked="20 sums")
    evaluation["outcomes"] = [right if cell == "arm" else wrong for cell in evaluation["cell"]]
    row = compare_one(evaluation)
    assert (row["pairing"], row["wins"], row["num_gained"]) == ("paired", 2, 40)
    assert row["mcnemar_favors"] == "cell"
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


@pytest.mark.parametrize("test_set", [None, ""])
def test_unknown_test_sets_are_not_the_same(test_set: str | None):
    evaluation = make_pair([0.9, 0.8], [0.5, 0.6]).assign(test_set=test_set)
    assert compare_one(evaluation)["pairing"] == "other test sets"


def test_without_shared_seeds_nothing_pairs():
    evaluation = make_pair([0.9, 0.8, 0.7], [0.5, 0.6, 0.7])
    evaluation.loc[evaluation["cell"] == "arm", "seed"] += 10
    row = compare_one(evaluation)
    assert (row["pairing"], row["interval"]) == ("no shared seeds", "range")
    assert (row["low"], row["high"]) == pytest.approx((0.0, 0.4))


def test_a_diverged_run_is_a_loss_on_any_test_set():
    """Its rows are made from another run's: their test set and outcomes say nothing."""
    right = np.packbits(np.ones(20, dtype=bool)).tobytes()
    evaluation = make_pair([1.0, 0.0], [1.0, 1.0]).assign(outcomes=right)
    last = (evaluation["cell"] == "arm") & (evaluation["seed"] == 1)
    evaluation.loc[last, ["status", "test_set"]] = ["diverged", "other"]
    row = compare_one(evaluation)
    assert (row["pairing"], row["wins"], row["ties"], row["losses"]) == ("paired", 0, 1, 1)
    assert (row["num_mcnemar"], row["num_gained"], row["num_lost"]) == (2, 0, 20)
    evaluation.loc[evaluation["cell"] == "arm", ["status", "test_set"]] = ["diverged", "other"]
    assert compare_one(evaluation)["pairing"] == "paired"
    evaluation["status"] = "diverged"
    row = compare_one(evaluation.assign(outcomes=None, exact_match=0.0))
    assert (row["pairing"], row["ties"]) == ("paired", 2)
    assert (row["num_gained"], row["num_lost"], row["p_mcnemar"]) == (0, 0, 1)


outcomes = st.integers(1, 40).flatmap(
    lambda n: st.tuples(*[st.lists(st.booleans(), min_size=n, max_size=n)] * 2)
)


@settings(max_examples=30, deadline=None)
@given(outcomes)
def test_discordant_examples_are_counted_from_bits(pair: tuple[list[bool], list[bool]]):
    ours, theirs = np.array(pair)
    evaluation = make_pair([0.5], [0.5])
    evaluation["outcomes"] = [np.packbits(theirs).tobytes(), np.packbits(ours).tobytes()]
    row = compare_one(evaluation)
    gained, lost = int((ours & ~theirs).sum()), int((theirs & ~ours).sum())
    assert (row["num_mcnemar"], row["num_gained"], row["num_lost"]) == (1, gained, lost)
    reference = mcnemar([[1, gained], [lost, 1]], exact=True)
    assert row["p_mcnemar"] == pytest.approx(reference.pvalue)


def test_pairs_without_single_outcomes_have_no_mcnemar_test():
    evaluation = make_pair([0.9, 0.8, 0.7], [0.5, 0.6, 0.7])
    for column in (evaluation.drop(columns="outcomes"), evaluation):
        row = compare_one(column)
        assert row["num_mcnemar"] == 0
        assert np.isnan(row["p_mcnemar"])
        assert pd.isna(row["num_gained"])
    right, none = (np.packbits([bit] * 20).tobytes() for bit in (1, 0))
    evaluation["outcomes"] = [none, none, None, right, b"", right]
    row = compare_one(evaluation)  # seed 0 only: the others lack one side
    assert (row["num_mcnemar"], row["num_gained"], row["num_lost"]) == (1, 20, 0)


def test_examples_of_several_lengths_and_second_lengths_pair_one_to_one():
    parts = []
    for length, second in product((10, 20), (1, 3)):
        part = make_pair([1.0], [0.5]).assign(length=length, test_set=f"{length}-{second}")
        part["second_length"] = pd.array([second] * 2, dtype="Int64")
        part["outcomes"] = [np.packbits([1, 0] * 10).tobytes(), np.packbits([1] * 20).tobytes()]
        parts.append(part)
    parts[0]["exact_match"] = [0.5, 0.9]  # the least over second lengths counts
    row = compare_one(pd.concat(parts), [20, 10])
    assert (row["num_mcnemar"], row["num_gained"], row["num_lost"]) == (1, 40, 0)
    assert pd.isna(row["length"])
    assert row["lengths"] == "10, 20"
    assert row["difference_median"] == pytest.approx(((0.9 - 0.5) + (1 - 0.5)) / 2)
    assert compare_one(pd.concat(parts[:3]), [10, 20])["n_pairs"] == 1
    assert compare_one(pd.concat(parts[:2]), [10, 20])["pairing"] == "no runs"
    lacking = pd.concat([*parts[:3], parts[3][parts[3]["cell"] == "base"]])
    assert compare_one(lacking, [10, 20])["pairing"] == "other test sets"


def test_holm_goes_over_the_arms_and_too_few_seeds_show():
    """Eight pairs decide between six arms but not seven, whatever they find."""
    base = make_rows("base", 0, dict.fromkeys(DIAGONAL, 0.5))
    arms = [make_rows(f"arm {i}", i, dict.fromkeys(DIAGONAL, 0.9)) for i in range(1, 8)]
    six = compare_arms(pd.concat([base, *arms[:6]]), 10)
    assert six["p_sign"].tolist() == [2 * 0.5**8] * 6
    assert six["p_holm"].tolist() == six["least_p_holm"].tolist() == [6 * 2 * 0.5**8] * 6
    assert (six["least_p_holm"] < 0.05).all()
    seven = compare_arms(pd.concat([base, *arms]), 10)
    assert (seven["least_p_holm"] > 0.05).all()
    fewer = make_rows("few", 9, dict.fromkeys(DIAGONAL[:3], 0.9))
    mixed = compare_arms(pd.concat([base, arms[0], fewer]), 10)
    assert mixed["least_p_holm"].tolist() == [4 * 0.5**8, 2 * 0.5**3]


def test_a_table_shows_no_p_where_no_p_could_be_small():
    def shown(num_pairs: int, arms: int, fewer: int = 0) -> tuple[set[tuple[str, ...]], str]:
        seeds = DIAGONAL[:num_pairs]
        cells = ["base", *(f"arm {i}" for i in range(arms))]
        shares = [dict.fromkeys(seeds, 0.9 if i else 0.5) for i in range(len(cells))]
        rows = [make_rows(cell, i, shares[i]) for i, cell in enumerate(cells)]
        rows += [make_rows("few", len(cells), dict.fromkeys(seeds[:fewer], 0.9))] if fewer else []
        table = arms_table(compare_arms(pd.concat(rows), 10), "t")
        p = [i for i, head in enumerate(table.header) if head.text == "p"]
        heads = tuple(table.header[i].detail for i in p)
        assert {len(row) for row in table.rows} == {len(table.header)}
        return {heads, *(tuple(row[i].text for i in p) for row in table.rows)}, table.notes[-1]

    both, few = ("sign test", "Holm"), "too few runs"
    texts, note = shown(5, 1)
    assert texts == {()}
    assert note.startswith("No column of p (sign test, Holm), too few runs: the least p that ")
    assert shown(6, 1)[0] == {both, ("0.031", "0.031")}
    texts, note = shown(6, 2)
    assert texts == {("sign test",), ("0.031",)}  # corrected for two rows
    assert note.startswith("No column of p (Holm), too few runs: the least p that the test can ")
    assert note.endswith("the least corrected one of this table is 0.062.")
    texts, note = shown(7, 1, fewer=3)
    assert texts == {both, ("0.016", "0.031"), (few, few)}  # a column that has one stays
    assert note.startswith("too few runs: the least p that the test can give is above 0.05")


def test_where_only_the_p_of_examples_is_left_the_notes_say_what_it_is_not():
    right, wrong = (np.packbits([bit] * 20).tobytes() for bit in (1, 0))
    evaluation = make_pair([1.0, 1.0], [0.0, 0.0])
    evaluation["outcomes"] = [right if cell == "arm" else wrong for cell in evaluation["cell"]]
    table = arms_table(compare_arms(evaluation, 10), "t")
    heads = [head.text for head in table.header]
    assert heads[-3:] == ["wins–ties–losses", "examples", "p examples"]
    assert [len(row) for row in table.rows] == [len(heads)]
    assert table.notes[2].startswith("No column of p (sign test, Holm), too few runs")
    assert table.notes[3].endswith("It says nothing about new seeds.")


def test_one_pair_has_no_interval_and_no_runs_have_no_test():
    """Although the arm has more runs than the one that pairs."""
    evaluation = make_pair([0.9, 0.8], [0.5])
    frame = compare_arms(evaluation, 10, cells=["base", "arm", "empty"])
    assert frame["interval"].tolist() == ["none", "none"]
    table = arms_table(frame, "t")
    assert [(row[1].text, row[2].text, row[2].detail) for row in table.rows] == [
        ("1", "+40.0", ""),
        ("0 vs 1", "–", ""),
    ]
    assert "Not paired, no runs: empty." in table.notes


def test_arms_are_in_order_and_cells_without_runs_stay():
    results = example()
    evaluation = results.evaluation
    frame = compare_arms(evaluation.sample(frac=1, random_state=0), 16)
    assert frame["cell"].tolist() == results.cells[1:]
    assert frame["n_pairs"].tolist() == [2, 3, 3, 3, 2]
    assert set(frame["reference"]) == {results.cells[0]}
    other = compare_arms(evaluation, 16, reference="NoPE, 3 layers")
    assert "NoPE, 3 layers" not in list(other["cell"])
    assert other["difference_median"][0] == pytest.approx(-frame["difference_median"][2])
    none = compare_arms(evaluation[:0], 16, cells=results.cells)
    assert set(none["pairing"]) == {"no runs"}
    assert none[["p_holm", "least_p", "p_mcnemar", "low"]].isna().all(axis=None)
    assert none.dtypes.equals(frame.dtypes)
    with pytest.raises(ValueError, match=r"no cell 'NoPe' to compare with; there: coupling, 1"):
        compare_arms(evaluation, 16, reference="NoPe")


def change(results: Results, **columns: Any) -> Results:
    """Results with these columns of the evaluation changed."""
    return replace(results, evaluation=results.evaluation.assign(**columns))


def test_results_equal_themselves():
    frame = compare_results(example(), example())
    assert len(frame) == 6 * 14
    assert set(frame["change"]) == {"equal"}
    assert (frame["difference"] == 0).all()
    assert (frame["p_holm"] == 1).all()
    assert frame["is_same_configuration"].all()
    assert frame["cell"].drop_duplicates().tolist() == example().cells


def test_results_that_differ_in_one_cell():
    a = example(complete=True, num_seeds=6)
    a = replace(a, evaluation=a.evaluation[a.evaluation["length"].isin([8, 16])])
    hit = (a.evaluation["cell"] == "NoPE, 3 layers") & (a.evaluation["length"] == 8)
    b = change(a, exact_match=a.evaluation["exact_match"].mask(hit, 1.0))
    frame = compare_results(a, b)
    (row,) = frame[frame["change"] == "counts differ"].to_dict("records")
    assert (row["cell"], row["length"], row["range"]) == ("NoPE, 3 layers", 8, "train")
    assert row["median_b"] == 1
    assert row["difference"] == pytest.approx(1 - row["median_a"])
    assert row["difference"] > 0
    assert (row["n_a"], row["n_b"], row["n_pairs"]) == (6, 6, 6)
    assert row["p_sign"] == pytest.approx(2 * 0.5 ** row["wins"], rel=1e-12)
    assert row["p_holm"] == pytest.approx(min(1, 6 * row["p_sign"]))  # six cells at this length
    backwards = compare_results(b, a)
    assert backwards["difference"].tolist() == (-frame["difference"]).tolist()


def test_cells_lengths_and_runs_of_one_side_only():
    a, b = example(), example(complete=True)
    gone = (b.evaluation["cell"] == "RoPE, 3 layers") | (b.evaluation["length"] == 20)
    frame = compare_results(a, replace(b, evaluation=b.evaluation[~gone])).set_index(
        ["cell", "length"]
    )
    assert (frame.loc["RoPE, 3 layers", "change"] == "only in A").all()
    assert frame.loc[("NoPE, 3 layers", 20), "change"] == "only in A"
    assert frame.loc[("NoPE, 3 layers", 16), "change"] == "equal"
    assert (frame.loc["coupling, 2 layers", "change"].drop(20) == "other runs").all()
    assert frame["p_holm"].isna().equals(frame["change"] == "only in A")
    other = compare_results(replace(a, evaluation=a.evaluation[:0]), b)
    assert set(other["change"]) == {"only in B"}


def test_a_label_may_mean_another_configuration():
    a = example()
    ids = a.trials["cell_id"].mask(a.trials["cell"] == "NoPE, 3 layers", "another")
    frame = compare_results(a, replace(a, trials=a.trials.assign(cell_id=ids)))
    same = frame.groupby("cell")["is_same_configuration"].all()
    assert same[~same].index.tolist() == ["NoPE, 3 layers"]


def test_results_with_other_test_sets_are_compared_run_by_run():
    a = example(complete=True)
    b = change(a, test_set="other", asked="other", exact_match=a.evaluation["exact_match"] / 2)
    frame = compare_results(a, b)
    assert set(frame["pairing"]) == {"other test sets"}
    assert frame["p_permutation"].notna().all()
    assert frame["least_p"].tolist() == [2 / 20] * len(frame)

"""What the documents say of all runs, or of none, and the factors in tokens, as rows have it."""

from functools import cache
from pathlib import Path

import pandas as pd
import pytest

from analysis.load import load_sweep
from pcore.tasks import Addition

LAPTOP = Path(__file__).parents[2] / "results" / "published" / "laptop"


@cache
def rows(sweep: str) -> pd.DataFrame:
    return load_sweep(LAPTOP, sweep, "laptop").evaluation


def shares(sweep: str, cells: list[str] | str, lengths: object) -> pd.Series:
    """Exact match of the runs of some cells, by the beginnings of their labels."""
    frame = rows(sweep)
    chosen = frame["cell"].str.startswith(tuple([cells] if isinstance(cells, str) else cells))
    found = frame.loc[chosen & frame["length"].isin(lengths), "exact_match"]
    assert len(found)
    return found


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


def test_without_coupling_addition_ends_at_the_trained_lengths():
    others = ["NoPE", "random", "RoPE", "sinusoidal", "ALiBi", "T5", "FIRE", "index"]
    assert shares("encoding_ablation", others, range(18, 201)).max() <= 0.004
    depth = ["NoPE", "random", "RoPE"]
    assert shares("depth_ablation", depth, range(18, 201)).max() == 0
    assert shares("mixer_ablation", "NoPE", range(17, 25)).max() == 0


def test_without_packed_rows_nothing_reaches_two_hundred_digits():
    assert shares("packing_ablation", ["rings, alone", "table, alone"], [200]).max() == 0
    assert shares("packing_ablation", "rings, packed, constant decay", [1000]).min() == 1
    assert shares("packing_ablation", "rings, packed, learned sink", [1000]).min() == 1
    ended = ["NoPE", "random", "RoPE"]
    assert shares("packing_ablation", ended, range(18, 201)).max() == 0


@pytest.mark.parametrize(
    ("arm", "right"), [("rows of 32", 126), ("rows of 64", 145), ("rows of 128", 157)]
)
def test_longer_rows_get_more_sums_of_ten_thousand_digits_right(arm, right):
    frame = rows("ten_thousand_digits")
    found = frame[(frame["cell"] == arm) & (frame["length"] == 10_000)]
    assert (found["num_correct"].sum(), found["num_examples"].sum()) == (right, 160)


def test_every_run_on_a_thousand_digits_stops_early_on_zero_plus_zero():
    frame = rows("thousand_digits")
    one_digit = frame[frame["length"] == 1]
    assert len(one_digit) == 8
    assert (one_digit["num_early_stop"] >= 10).all()

"""The numbers of the documents that no block fills in, as rows and tasks have them."""

from pathlib import Path

import pytest

from analysis.load import load_sweep
from pcore.tasks import Addition

LAPTOP = Path(__file__).parents[2] / "results" / "published" / "laptop"


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


def test_sums_of_ten_thousand_digits_that_are_right_and_zero_plus_zero():
    frame = load_sweep(LAPTOP, "ten_thousand_digits", "laptop").evaluation
    right = frame[frame["length"] == 10_000].groupby("cell")[["num_correct", "num_examples"]].sum()
    for problems, number in {32: 126, 64: 145, 128: 157}.items():
        assert tuple(right.loc[f"rows of {problems}"]) == (number, 160)
    frame = load_sweep(LAPTOP, "thousand_digits", "laptop").evaluation
    one_digit = frame[frame["length"] == 1]
    assert len(one_digit) == 8
    assert (one_digit["num_early_stop"] >= 10).all()


def test_wrong_answers_of_copy_and_reverse_lack_the_stop_alone():
    frame = load_sweep(LAPTOP, "copy_reverse", "laptop").evaluation
    rows = frame[frame["cell"].str.contains("coupling") & (frame["range"] == "test")]
    wrong = rows["num_examples"].sum() - rows["num_correct"].sum()
    assert round(100 * rows["num_missed_stop"].sum() / wrong) == 98

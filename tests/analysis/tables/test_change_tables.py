"""Bands of lengths: neighbours with one verdict, and nothing said twice."""

import numpy as np
import pandas as pd

from analysis.statistics.bands import compare_bands
from analysis.tables.change_tables import band_table

EQUAL = ("equal", 0.0, np.nan)


def changes(least: float = 0.01, **cells: list[tuple[str, float, float]]) -> pd.DataFrame:
    """What `compare_results` gives: change, difference and p of each length from 1 on.
    least: the least p that so many runs can have.
    """
    return pd.DataFrame(
        {
            "cell": cell,
            "length": length,
            "range": "test",
            "change": change,
            "difference": difference,
            "difference_median": difference,
            "p_holm": p,
            "least_p_holm": least,
            "median_a": 0.5,
            "median_b": 0.5 + difference,
            "n_a": 3,
            "n_b": 4,
        }
        for cell, rows in cells.items()
        for length, (change, difference, p) in enumerate(rows, start=1)
    )


def verdicts(frame: pd.DataFrame) -> list[tuple[str, int, int, str]]:
    names = ["cell", "first_length", "last_length", "verdict"]
    return [tuple(row) for row in compare_bands(frame)[names].to_numpy().tolist()]


def test_neighbours_with_one_verdict_are_one_band():
    frame = changes(
        up=[
            EQUAL,
            EQUAL,
            ("counts differ", 0.02, 0.25),
            ("counts differ", 0.3, 0.25),
            ("counts differ", -0.2, 0.25),
        ],
        sure=[("counts differ", -0.004, 0.03), ("counts differ", -0.4, 0.2)],
        new=[("only in B", np.nan, np.nan)] * 3,
    )
    assert verdicts(frame) == [
        ("up", 1, 2, "equal"),
        ("up", 3, 4, "B higher, not separated"),
        ("up", 5, 5, "B lower, not separated"),
        ("sure", 1, 2, "B lower"),
        ("new", 1, 3, "only in B"),
    ]
    bands = compare_bands(frame).set_index(["cell", "first_length"])
    largest = bands.loc[("up", 3)]
    assert (largest["difference"], largest["length"]) == (0.3, 4)
    assert (largest["least_b"], largest["most_b"]) == (0.52, 0.8)
    assert (largest["n_a"], largest["n_b"], largest["p_holm"]) == (3, 4, 0.25)


def test_a_band_ends_where_a_range_does():
    frame = changes(up=[("counts differ", 0.2, 0.25)] * 3)
    frame["range"] = ["train", "near", "near"]
    assert verdicts(frame) == [
        ("up", 1, 1, "B higher, not separated"),
        ("up", 2, 3, "B higher, not separated"),
    ]
    assert list(compare_bands(frame)["range"]) == ["train", "near"]


def test_runs_too_few_for_any_verdict_are_not_called_undecided():
    growing = [("counts differ", 0.3, 0.25), ("counts differ", -0.3, 0.25)]
    told = [verdict for *_, verdict in verdicts(changes(least=0.25, cell=growing))]
    assert told == ["B higher, too few runs", "B lower, too few runs"]


def test_small_differences_are_told_apart_only_where_a_test_does():
    small, other = ("counts differ", 0.009, 0.06), ("other runs", 0.0, np.nan)
    frame = changes(noise=[EQUAL, small, other, small], same=[other, other])
    assert verdicts(frame) == [
        ("noise", 1, 4, "medians within a point"),
        ("same", 1, 2, "medians within a point, other runs"),
    ]
    assert verdicts(changes(sure=[("counts differ", 0.009, 0.05)])) == [("sure", 1, 1, "B higher")]


def test_runs_that_only_one_side_has_may_move_a_median():
    frame = changes(least=0.25, more=[("other runs", -0.3, 0.25)] * 2)
    frame["difference_median"] = 0.0  # pairs of equal seeds agree
    assert verdicts(frame) == [("more", 1, 2, "B lower, too few runs, other runs")]
    (row,) = band_table(frame, "").rows
    assert row[4].text == "−30.0 at 1"


def test_the_table_leaves_out_cells_that_are_equal_throughout():
    frame = changes(same=[EQUAL] * 9, half=[EQUAL, ("counts differ", 0.1, 0.5)])
    table = band_table(frame, "From A to B")
    texts = [tuple(field.text for field in row) for row in table.rows]
    assert texts == [
        ("half", "1 test", "50.0", "50.0", "+0.0 at 1", "3/4", "–", "equal"),
        ("half", "2 test", "50.0", "60.0", "+10.0 at 2", "3/4", "0.500", "B higher, not separated"),
    ]
    assert table.notes[0].startswith(
        "2 cells with runs, of which 1 are left out, with equal counts"
    )
    few = band_table(changes(least=0.25, half=[("counts differ", 0.1, 0.5)]), "")
    assert [field.text for field in few.rows[0]][-2:] == ["–", "B higher, too few runs"]
    (row,) = band_table(changes(same=[EQUAL]), "").rows  # a cell alone is shown
    assert (row[0].text, row[-1].text) == ("same", "equal")

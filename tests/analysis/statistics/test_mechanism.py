"""Why models fail and what their heads look at, from rows to frames, figures and a verdict."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from analysis.load import RUN, no_mechanism
from analysis.statistics.mechanism import cause_strengths, pattern_masses
from tests.support.rows.example_store import example

COUPLED, NOPE = "coupling, 1 layer", "NoPE, 3 layers"


def with_rows(results, rows):
    """The results with mechanism rows (run number, columns) of the runs of each cell."""
    found = []
    for cell, number, columns in rows:
        run = results.trials[results.trials["cell"] == cell].iloc[number]
        found.append({**run[RUN], **columns})
    frame = pd.DataFrame(found).reindex(columns=[*no_mechanism().columns, "trial_id"])
    return dataclasses.replace(results, mechanism=frame.loc[:, ~frame.columns.duplicated()])


def head(pattern, mass, number=0, most=0.8, level="significance", length=8):
    names = {"kind": "head", "layer": 0, "head": number, "level": level, "pattern": pattern}
    return names | {"length": length, "mass_beyond_bos": mass, "most_beyond_bos": most}


def failures(length, count):
    kinds = {"num_missed_stop": 0, "num_early_stop": count, "num_wrong_symbol": 0}
    return {"kind": "failures", "length": length, **kinds}


def cause(length, name, strength):
    return {"kind": "cause", "length": length, "cause": name, "strength": strength}


def test_a_pattern_counts_in_the_head_that_shows_it_best_averaged_over_levels_of_ids():
    results = example(complete=True)
    rows = [head("next", 0.4, 0), head("next", 0.2, 1), head("same", 0.1, 0), head("same", 0.8, 1)]
    rows.append(head("next", 0.8, 0, length=20))  # a longer length does not count
    levels = [head("next", 0.8), head("next", 0.4, level="operand"), head("same", 0.8)]
    runs = [(COUPLED, run, row) for run, of in enumerate((rows, levels)) for row in of]
    masses = pattern_masses(with_rows(results, runs))
    assert masses[["length", "cell"]].to_numpy().tolist() == [[8, COUPLED]] * 2
    found = masses[["next", "same", "pattern"]].to_numpy()
    assert found == pytest.approx(np.array([[0.5, 1.0, 0.5], [0.75, 1.0, 0.75]]))
    assert pattern_masses(with_rows(results, [(COUPLED, 0, head("same", 0.8))])).empty, "no next"


def test_strengths_are_weighted_by_failures_then_medians_and_unnamed_causes_count_as_0():
    rows = [failures(12, 30), failures(14, 90), failures(16, 0)]
    rows += [cause(12, "position ID", 0.8), cause(14, "early stop", 1.0), cause(14, "start", 0.4)]
    rows += [cause(12, "column", 0.4)]  # the name of a level
    rows += [cause(12, "position ID (width)", 0.6)]  # of two levels the stronger one
    of_runs = [(COUPLED, 0, row) for row in rows]
    of_runs += [(NOPE, run, failures(12, 10)) for run in range(3)]
    of_runs += [(NOPE, run, cause(12, "place", x)) for run, x in enumerate((0.2, 0.9, 0.4))]
    found = cause_strengths(with_rows(example(complete=True), of_runs))
    assert list(found["cell"]) == [COUPLED, NOPE]
    assert found["place in answer"].tolist() == [0, 0.4]
    assert found["position ID"].iloc[0] == pytest.approx(0.8 * 30 / 120)
    assert found["start of counting"].iloc[0] == pytest.approx(0.4 * 90 / 120)
    assert found["column"].iloc[0] == pytest.approx(0.4 * 30 / 120)
    assert "early stop" not in found  # a kind of failure: the bars show it

"""Bisection finds the longest solved length with few questions, and says what it assumes."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcore.cli import main
from pcore.config import override
from pcore.diagnosis import bisection
from pcore.diagnosis.bisection import bisect_lengths, find_l95
from pcore.evaluation.evaluate import evaluate_length
from pcore.model.checkpoint import save_model
from pcore.model.transformer import make_model
from tests.support import planted_adders as planted


@given(st.lists(st.integers(1, 300), unique=True, max_size=60), st.integers(0, 301))
def test_the_longest_solved_length_is_found_in_few_questions(lengths, limit):
    lengths, asked = sorted(lengths), []

    def is_solved(length):
        asked.append(length)
        return length <= limit

    expected = max((n for n in lengths if n <= limit), default=0)
    assert bisect_lengths(lengths, is_solved) == expected
    assert len(set(asked)) == len(asked)
    assert len(asked) <= 1 + math.ceil(math.log2(len(lengths) + 1))


def breaks_beyond_4(moment):
    return planted.stops_early(moment) if len(moment.a) > 4 else moment.right


@pytest.mark.parametrize("stop_error", [0.0, 0.05])
def test_l95_of_a_planted_adder(tiny_config, stop_error):
    config = override(tiny_config, {"eval.num_examples": 200, "eval.stop_error": stop_error})
    longest, visited = find_l95(planted.Adder(breaks_beyond_4), config, [7, 3, 4, 1, 5, 2, 6])
    assert longest == 4
    assert [result.length for result in visited] == [3, 4, 5, 7]
    for result in visited:
        expected = 200 if result.length <= 4 or not stop_error else 100
        assert result.counts.num_examples == expected


def test_a_model_that_solves_the_longest_length_is_asked_once(tiny_config):
    longest, visited = find_l95(planted.Adder(planted.none), tiny_config, [1, 2, 3, 6])
    assert (longest, len(visited)) == (6, 1)


def test_a_length_out_of_reach_is_refused_before_anything_is_evaluated(tiny_config, monkeypatch):
    monkeypatch.setattr(bisection, "evaluate_length", None)
    with pytest.raises(ValueError, match="max_position=20 is below 42"):
        find_l95(make_model(tiny_config), tiny_config, [2, 40])
    with pytest.raises(ValueError, match="no lengths"):
        find_l95(make_model(tiny_config), tiny_config, [])


def test_the_command_prints_what_it_visited(tiny_config, tmp_path, capsys):
    config = override(tiny_config, {"eval.num_examples": 120})
    model = make_model(config)
    save_model(tmp_path / "m.pt", config, model.state_dict(), policy="last", step=0)
    assert main(["reach", str(tmp_path / "m.pt"), "--lengths", "1-8", "--stop-error", "0.05"]) == 0
    printed = capsys.readouterr().out
    assert "L95: 0, from 4 of 8 lengths, if exact match does not rise with length" in printed
    counts = evaluate_length(model, config, "", 0, "train", 1, None).counts
    assert f"{counts.num_correct} of 100" in printed
    assert main(["reach", str(tmp_path / "m.pt"), "--stop-error", "2"]) == 2
    assert "--stop-error 2.0 must be at least 0 and below 1" in capsys.readouterr().err

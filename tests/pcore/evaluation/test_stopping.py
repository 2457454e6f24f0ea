"""A length that is left early is judged rightly as often as was asked for; nothing else changes."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from pcore.config import TrialConfig, override, trial_id
from pcore.evaluation.evaluate import evaluate_lengths
from pcore.evaluation.judge import judge
from pcore.evaluation.stopping import SOLVED, is_decided, pieces
from pcore.evaluation.test_sets import hash_batch, make_test_set
from pcore.model.transformer import make_model
from pcore.tasks.base import Batch
from pcore.training.validate import validate


def decisions(share: float, error: float, num_runs: int = 2000, num_examples: int = 3000):
    """(share of runs decided above, below, not at all; mean examples) when looked at every time."""
    rng = np.random.default_rng(int(share * 1000))
    right = np.cumsum(rng.random((num_runs, num_examples)) < share, axis=1)
    found = {"above": 0, "below": 0, "open": 0}
    sizes = []
    for run in right:
        for piece in [*range(1, 60), *range(60, num_examples + 1, 5)]:
            if is_decided(int(run[piece - 1]), piece, error):
                found["above" if run[piece - 1] > SOLVED * piece else "below"] += 1
                break
        else:
            found["open"] += 1
        sizes.append(piece)
    return {name: count / num_runs for name, count in found.items()}, np.mean(sizes)


def test_at_the_threshold_decisions_are_as_rare_as_the_error_although_all_looks_count():
    found, _ = decisions(SOLVED, 0.05, num_runs=600, num_examples=1500)
    allowed = stats.binom.ppf(0.999, 600, 0.05) / 600
    assert 0 < found["above"] + found["below"] <= allowed


@pytest.mark.parametrize(("share", "side"), [(0.99, "above"), (0.9, "below")])
def test_the_right_side_is_found_with_few_examples(share, side):
    found, size = decisions(share, 0.05, num_runs=200)
    other = "below" if side == "above" else "above"
    assert found[side] >= 0.95
    assert found[other] <= 0.05
    assert size < 1500


def test_the_mixture_is_the_integral_of_the_likelihood():
    for num_correct, num_examples in ((0, 3), (7, 10), (160, 160), (90, 100)):
        shares = (np.arange(200_000) + 0.5) / 200_000
        mixed = np.mean(shares**num_correct * (1 - shares) ** (num_examples - num_correct))
        plain = SOLVED**num_correct * (1 - SOLVED) ** (num_examples - num_correct)
        for error in (0.5, 0.05, 1e-6):
            assert is_decided(num_correct, num_examples, error) == (mixed >= plain / error)


def test_a_smaller_error_asks_for_more():
    assert is_decided(200, 200, 0.05)
    assert not is_decided(200, 200, 0.001)
    assert not is_decided(95, 100, 0.05), "just at the threshold"
    assert is_decided(0, 3, 0.05)


@pytest.mark.parametrize("num_examples", [1, 99, 100, 101, 250, 2000])
def test_pieces_cover_the_test_set_once(num_examples):
    found = list(pieces(num_examples))
    assert [row for piece in found for row in piece] == list(range(num_examples))
    assert all(len(piece) <= max(100, piece.start) for piece in found)


def test_a_hopeless_length_is_left_after_the_first_piece(tiny_config):
    config = override(tiny_config, {"eval.num_examples": 250, "eval.stop_error": 0.05})
    model = make_model(config)
    whole = judge(model, make_test_set(config, 4), config)
    for result in evaluate_lengths(model, config, "last", 0):
        assert result.counts.num_examples == 100
        assert result.outcomes == b"", "no fixed number of examples, no test on single ones"
        batch = make_test_set(config, result.length)
        head = Batch(*(part[:100] for part in batch))
        assert result.test_set == hash_batch(head) != hash_batch(batch), "another set of examples"
        if result.length == 4:
            counts = judge(model, batch, config, stop_error=0.05).counts
            assert counts.num_correct == int(whole.right[:100].sum())
            assert counts.num_tokens == int(head.response_mask.sum())


def test_an_undecided_length_is_evaluated_wholly(tiny_config):
    config = override(tiny_config, {"eval.num_examples": 250})
    model, batch = make_model(config), make_test_set(config, 2)
    never = judge(model, batch, config, stop_error=1e-300)
    plain = judge(model, batch, config)
    assert never.counts.loss_sum == pytest.approx(plain.counts.loss_sum)
    same = dataclasses.replace(never.counts, loss_sum=plain.counts.loss_sum)
    assert same == plain.counts
    assert never.right.tolist() == plain.right.tolist()
    assert (never.samples, never.wrong_at) == (plain.samples, plain.wrong_at)


def test_trials_without_it_are_what_they_were_and_with_it_are_others():
    assert trial_id(override(TrialConfig(), {"eval.stop_error": 0})) == trial_id(TrialConfig())
    assert trial_id(override(TrialConfig(), {"eval.stop_error": 0.05})) != trial_id(TrialConfig())


@pytest.mark.parametrize("value", [-0.1, 1.0, float("nan")])
def test_an_impossible_error_is_refused(tiny_config, value):
    message = r"eval.stop_error=.* (must be at least 0 and below 1|is not a valid float)"
    with pytest.raises(ValueError, match=message):
        validate(override(tiny_config, {"eval.stop_error": value}))

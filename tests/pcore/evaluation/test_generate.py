"""Free decoding with a cache gives exactly what the teacher-forced pass measures."""

import pytest
import torch

from pcore.config import TrialConfig, override
from pcore.decoding import decode_freely, solve
from pcore.evaluation import evaluation_ids, judge, predict_targets
from pcore.model import make_model
from pcore.tasks.base import Batch
from pcore.training import train
from tests.support.obvious import outcomes
from tests.support.tiny_config import TINY


@pytest.fixture(scope="module")
def halfway():
    """(model, trial) of a copy that is right for some strings and wrong for others."""
    config = override(TrialConfig(), TINY | COPYING)
    *_, last = train(config, report_every=10_000)
    model = make_model(config)
    model.load_state_dict(last.checkpoints["last"])
    return model.eval(), config


COPYING = {
    "task.name": "copy",
    "optim.num_steps": 100,
    "optim.batch_size": 32,
    "model.d_model": 32,
    "model.d_head": 16,
    "model.num_layers": 1,
    "model.attention_scale": "log-length",
    "position.max_position": 8,
    "eval.train_lengths": "1",
    "eval.test_lengths": "4",
    "eval.num_examples": 8,
    "eval.attention_factor": 1.3,
}


def test_teacher_forced_exact_match_is_free_exact_match(halfway):
    model, config = halfway
    rng = torch.Generator().manual_seed(0)
    batch = config.task.sample_mixture(60, 1, 4, rng)  # rows of many lengths, padded
    forced = outcomes(judge(model, batch, config))
    assert 3 < sum(forced) < 57, "the model must be right and wrong"
    for row, right in zip(zip(*(t.split(1) for t in batch), strict=True), forced, strict=True):
        example = Batch(*row)
        truth = example.tokens[example.response_mask].tolist()
        assert (decode_freely(model, example, config) == truth) is right


@pytest.mark.parametrize(
    "changes",
    [{"position.encoding": "rotary", "position.ids": "sequential"}, {"task.zero_pad": False}],
    ids=str,
)
def test_of_what_is_decoded_the_parallel_pass_predicts_every_token(tiny_config, changes):
    """By induction, one is the truth if and only if the other is, for responses of any length."""
    config, model = override(tiny_config, changes), make_model(override(tiny_config, changes))
    for name, weights in model.named_parameters():  # or it repeats the last token
        if name.endswith(("wo", "attention.o")):
            weights.data *= 20
    seen = set()
    for query in ("9+1", "3+1", "653+49", "8+77", "205+6"):
        batch = config.task.encode(query)
        written = torch.tensor(decode_freely(model, batch, config))
        places = batch.response_mask[0].nonzero().flatten()[: len(written)]
        own = batch._replace(tokens=batch.tokens.index_copy(1, places, written[None]))
        answers = predict_targets(model, own, evaluation_ids(batch, config), config)
        assert torch.equal(answers.predicted[0, : len(written)], written)
        seen |= {*written.tolist()}
    assert len(seen) > 2


def test_nothing_follows_a_stop(tiny_config):
    model = make_model(tiny_config)
    eos = tiny_config.task.vocab.index["$"]
    model.embedding.data[eos] *= 3  # a model that likes to stop
    found = [
        decode_freely(model, tiny_config.task.encode(f"{n}+7"), tiny_config) for n in range(99)
    ]
    assert any(eos in tokens[:3] for tokens in found)
    assert not any(eos in tokens[:-1] for tokens in found)


def test_solve_reports_response_truth_and_stop(halfway):
    model, config = halfway
    solutions = [solve(model, config, str(n)) for n in range(90, 120)]
    assert {s.is_correct for s in solutions} == {True, False}
    for solution in solutions:
        assert solution.truth == tuple(solution.query)
        assert solution.is_correct == (solution.stopped and solution.response == solution.truth)
        assert "$" not in solution.response

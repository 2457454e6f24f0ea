"""Free decoding with a cache gives exactly what the teacher-forced pass measures."""

from functools import cache

import pytest
import torch

from pcore.batch import target_places
from pcore.config import override
from pcore.decoding import decode_freely, solve
from pcore.evaluation import judge, make_test_set
from pcore.model import make_model
from pcore.tasks.base import Batch
from pcore.training import train


@cache
def train_halfway(config):
    """A model that answers some queries right and some wrong."""
    *_, last = train(config, report_every=10_000)
    model = make_model(config)
    model.load_state_dict(last.checkpoints["last"])
    return model.eval()


def exact_free(model, batch: Batch, config) -> torch.Tensor:
    """Which examples are right when the model reads its own predictions."""
    places, real = target_places(batch.response_mask)
    targets = batch.tokens.gather(1, places + 1).masked_fill(~real, 0)
    return (decode_freely(model, batch, config) == targets).all(dim=1)


def exact_forced(model, batch: Batch, config) -> torch.Tensor:
    """The same by `judge`, one example at a time."""
    rows = [Batch(*(t[i : i + 1] for t in batch)) for i in range(len(batch.tokens))]
    return torch.tensor([bool(judge(model, r, config).counts.num_correct) for r in rows])


COPYING = {
    "task.name": "copy",
    "data.max_length": 3,
    "optim.num_steps": 100,
    "optim.batch_size": 32,
    "optim.learning_rate": 3e-3,
    "model.d_model": 32,
    "model.d_head": 16,
    "position.max_position": 8,
    "eval.train_lengths": "1",
    "eval.test_lengths": "4",
    "eval.num_examples": 8,
}


SHARP = {
    "model.num_layers": 1,
    "model.attention_scale": "log-length",
    "eval.attention_factor": 1.3,
}


@pytest.mark.parametrize(
    "changes",
    [
        {"position.encoding": "rotary", "position.ids": "sequential"},
        SHARP,
    ],
    ids=str,
)
def test_teacher_forced_exact_match_is_free_exact_match(tiny_config, changes):
    config = override(tiny_config, COPYING | changes)
    model = train_halfway(config)
    rng = torch.Generator().manual_seed(0)
    batch = config.task.sample_mixture(80, 1, 4, rng)  # rows of many lengths, padded
    free = exact_free(model, batch, config)
    forced = exact_forced(model, batch, config)
    assert 4 < int(forced.sum()) < 76, "the model must be right and wrong"
    assert torch.equal(free, forced)


def test_they_agree_where_responses_of_one_query_length_differ(tiny_config):
    """Addition without padding: 9 + 1 has a longer response than 3 + 1."""
    config = override(
        tiny_config,
        {"task.zero_pad": False, "optim.num_steps": 150, "data.max_length": 1}
        | {"optim.batch_size": 32, "model.d_model": 32, "eval.train_lengths": "1"}
        | {"position.max_position": 8},
    )
    model = train_halfway(config)
    batch = make_test_set(override(config, {"eval.num_examples": 100}), 1)
    assert len(batch.response_mask.sum(dim=1).unique()) > 1
    forced = exact_forced(model, batch, config)
    assert 5 < int(forced.sum()) < 95
    assert torch.equal(exact_free(model, batch, config), forced)


def test_decoding_reads_only_the_query(tiny_config):
    config = override(tiny_config, {"position.encoding": "rotary"})
    model = make_model(config)
    batch = make_test_set(config, 3)
    noise = torch.where(batch.response_mask, 5, batch.tokens)
    noisy = Batch(noise, batch.relative_ids, batch.response_mask)
    assert torch.equal(decode_freely(model, batch, config), decode_freely(model, noisy, config))


def test_nothing_follows_a_stop(tiny_config):
    model = make_model(tiny_config)
    eos = tiny_config.task.vocab.index["$"]
    model.embedding.data[eos] *= 3  # a model that likes to stop
    batch = make_test_set(tiny_config, 4)
    predicted = decode_freely(model, batch, tiny_config)
    stopped = predicted == eos
    early = stopped[:, :-1].any(dim=1)
    assert early.any()
    for row in predicted[early]:
        first = int((row == eos).int().argmax())
        assert not row[first + 1 :].any()


def test_solve_reports_response_truth_and_stop(tiny_config):
    config = override(tiny_config, COPYING | SHARP)
    model = train_halfway(config)
    solutions = [solve(model, config, str(n)) for n in range(90, 120)]
    assert {s.is_correct for s in solutions} == {True, False}
    for solution in solutions:
        assert solution.truth == tuple(solution.query)
        assert solution.is_correct == (solution.stopped and solution.response == solution.truth)
        assert "$" not in solution.response

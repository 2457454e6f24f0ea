"""The fast evaluation counts what the obvious one counts, example by example, however it is cut."""

from contextlib import contextmanager

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pcore import evaluation
from pcore.batch import target_places
from pcore.config import make_generator, override
from pcore.encodings import ENCODINGS
from pcore.encodings.position_ids import draw_position_ids
from pcore.evaluation import evaluation_ids, judge, predict_targets
from pcore.model import Transformer, make_model
from pcore.settings import PositionConfig
from sweeps.baseline import addition
from tests.support.obvious import judge_plainly, outcomes

SHAPES = st.fixed_dictionaries(
    {
        "model.num_layers": st.integers(1, 2),
        "model.norm_placement": st.sampled_from(["both", "pre", "post"]),
        "model.attention_scale": st.sampled_from(["none", "log-length"]),
        "position.encoding": st.sampled_from(["none", "learned"]),
        "position.test_policy": st.sampled_from(["fixed", "random", "wrapped"]),
        "seed": st.integers(0, 99),
    }
)
FORMATS = st.sampled_from([{}, {"task.zero_pad": False}, {"task.scratchpad": True}])
SIZES = st.sampled_from([1, 2**14, 2**17, 2**30])
BASE = {"position.max_position": 40, "data.max_length": 6, "eval.num_examples": 30}


@contextmanager
def memory(part: int, shared: int):
    """Parts and what they share limited to so many bytes."""
    before = evaluation.PART_BYTES, evaluation.SHARED_BYTES
    evaluation.PART_BYTES, evaluation.SHARED_BYTES = {"cpu": part}, {"cpu": shared}
    try:
        yield
    finally:
        evaluation.PART_BYTES, evaluation.SHARED_BYTES = before


@given(SHAPES, FORMATS, st.integers(1, 40), st.integers(1, 6), SIZES, SIZES)
@settings(max_examples=40, deadline=None, derandomize=True)  # no ties that rounding could decide
def test_counts_and_outcomes_are_those_of_the_obvious_version(
    changes, shape, count, longest, part, shared
):
    config = override(addition("smoke"), BASE | changes | shape)
    model = make_model(config)
    model.embedding.data[config.task.vocab.index["$"]] *= 2  # so that it stops early now and then
    rng = make_generator("judging", changes["seed"])
    batch = config.task.at_test().sample_mixture(count, 1, longest, rng)
    ids = evaluation_ids(batch, config)
    expected, loss, wrong = judge_plainly(model, config, batch, ids)
    with memory(part, shared):
        judged, answers = judge(model, batch, config), predict_targets(model, batch, ids, config)
    is_wrong = (answers.predicted != answers.targets) & answers.real
    assert [row.nonzero().flatten().tolist() for row in is_wrong] == wrong
    counts = judged.counts
    assert answers.loss_sum == counts.loss_sum
    assert {name: getattr(counts, f"num_{name}") for name in expected} == expected
    assert counts.num_tokens == int(batch.response_mask.sum())
    assert counts.num_correct_tokens == counts.num_tokens - sum(map(len, wrong))
    assert counts.loss_sum == pytest.approx(loss, rel=1e-5)
    right = [not places for places in wrong]
    assert outcomes(judged) == right
    width = len(judged.wrong_at)
    assert judged.wrong_at == tuple(sum(i in places for places in wrong) for i in range(width))
    first = tuple(sum(places[:1] == [i] for places in wrong) for i in range(width))
    assert judged.first_wrong_at == first
    for sample in judged.samples:
        row = right.index(sample.right)
        assert (sample.query, sample.answer) == config.task.decode(batch.tokens[row])
        end = int(batch.response_mask[row].sum()) - 1 if sample.right else wrong[row][0] + 1
        written = config.task.vocab.decode(answers.predicted[row, :end].tolist())
        assert sample.predicted == "".join(written)


def test_a_part_is_as_wide_as_its_longest_example_and_fits_into_memory(tiny_config, monkeypatch):
    config = override(tiny_config, {"task.zero_pad": False})
    model, seen = make_model(config), list[torch.Tensor]()

    forward = Transformer.forward

    def spy(model, tokens, *rest, **options):
        seen.append(tokens)
        return forward(model, tokens, *rest, **options)

    monkeypatch.setattr(model, "forward", spy.__get__(model))
    batch = config.task.sample_mixture(50, 1, 6, make_generator("parts"))
    with memory(2**14, 2**16):
        judge(model, batch, config)
    assert sum(map(len, seen)) == 50
    for tokens in seen:
        width = tokens.shape[1]
        assert bool((tokens[:, -1] != 0).any())
        assert len(tokens) == 1 or len(tokens) * 4 * width * (32 + 2 * width) <= 2**14
    spread = [int((t != 0).sum(dim=1).max() - (t != 0).sum(dim=1).min()) for t in seen]
    assert sum(spread) <= 20, "rows of like length go together"


# Equal tokens ---------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_tokens_that_share_their_only_block_give_the_same_logits(tiny_config, encoding):
    """Of the first of two blocks: test_conformance.py."""
    changes = {"position.encoding": encoding, "model.num_layers": 1, "model.d_model": 32}
    changes |= {"model.attention_scale": "log-length", "position.max_position": 30}
    config = override(tiny_config, changes | ENCODINGS[encoding].needs)
    model = make_model(config).double()
    batch = config.task.sample_mixture(40, 1, 3, make_generator("shared"))
    position = PositionConfig(max_position=30)
    ids = draw_position_ids(batch.relative_ids, position, make_generator("starts"))[:, :-1]
    tokens = batch.tokens[:, :-1]
    shared = model.share(tokens, ids)
    assert shared is not None
    places, _ = target_places(batch.response_mask)
    found, plain = model(tokens, ids, places, shared=shared), model(tokens, ids, places)
    torch.testing.assert_close(found, plain, atol=1e-6, rtol=1e-6)

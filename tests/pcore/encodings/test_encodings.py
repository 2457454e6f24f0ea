"""Encodings against plain, independent definitions; levels; every task with every encoding."""

import itertools
import math

import pytest
import torch

from pcore.config import TrialConfig, make_generator, override
from pcore.conformance.tasks import is_possible
from pcore.encodings import ENCODINGS, make_table
from pcore.encodings.attention import alibi_slopes, t5_bucket
from pcore.settings import ModelConfig, PositionConfig
from pcore.tasks import TASKS
from pcore.training import train
from pcore.validation import validate
from tests.support.tiny_config import TINY

MODEL = ModelConfig(num_layers=2, num_heads=4, d_model=16, d_head=8, d_ff=16)
IDS = ("coupled", "sequential", "abacus", "randomized", "candidates")


def build(name: str, num_levels: int = 1, model: ModelConfig = MODEL, **options):
    position = PositionConfig(encoding=name, **options)
    return ENCODINGS[name](position, model, num_levels, make_generator("test", name))


def some_ids(num_levels: int = 1, limit: int = 40, batch: int = 3, count: int = 9):
    rng = make_generator("ids")
    return torch.randint(0, limit, (batch, count, num_levels), generator=rng)


def test_sinusoidal_is_the_formula():
    ids, got = some_ids(), build("sinusoidal").embed(some_ids())
    for b, t in itertools.product(range(3), range(9)):
        i = int(ids[b, t, 0])
        for k in range(8):
            angle = i / 10000 ** (2 * k / 16)
            assert got[b, t, 2 * k] == pytest.approx(math.sin(angle), abs=1e-5)
            assert got[b, t, 2 * k + 1] == pytest.approx(math.cos(angle), abs=1e-5)


def test_alibi_slopes_are_the_published_ones():
    assert alibi_slopes(8) == [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]
    assert alibi_slopes(16)[:2] == [2**-0.5, 2**-1]
    # 12 heads: the 8 of 8 heads, then every other one of 16 heads (Press et al., get_slopes)
    assert alibi_slopes(12) == pytest.approx(alibi_slopes(8) + alibi_slopes(16)[0:8:2])
    assert len(alibi_slopes(1)) == 1


def test_alibi_is_minus_slope_times_distance():
    ids = some_ids()
    got = build("alibi").bias(ids[:, 4:], ids, 0)
    for b, h, q, t in itertools.product(range(3), range(4), range(5), range(9)):
        distance = abs(int(ids[b, 4 + q, 0]) - int(ids[b, t, 0]))
        assert got[b, h, q, t] == pytest.approx(-(2.0 ** (-2 * (h + 1))) * distance)


def published_t5_bucket(distance: int) -> int:
    """mesh-tensorflow's _relative_position_bucket, causal, 32 buckets, max distance 128."""
    n = torch.tensor(distance)
    if n < 16:
        return int(n)
    large = 16 + (torch.log(n.float() / 16) / math.log(128 / 16) * (32 - 16)).long()
    return int(torch.minimum(large, torch.tensor(31)))


def test_t5_buckets_are_the_published_ones():
    assert [t5_bucket(n) for n in range(1000)] == [published_t5_bucket(n) for n in range(1000)]


def test_t5_bias_looks_up_the_bucket_of_the_difference_with_its_sign():
    ids = some_ids(limit=400)
    encoding = build("t5")
    got, table = encoding.bias(ids[:, 4:], ids, 1), encoding.table[0]
    for b, h, q, t in itertools.product(range(3), range(4), range(5), range(9)):
        difference = int(ids[b, 4 + q, 0]) - int(ids[b, t, 0])
        row = published_t5_bucket(abs(difference)) + (32 if difference < 0 else 0)
        assert got[b, h, q, t] == table[row, h]


def fire_by_hand(encoding, i: int, j: int, layer: int, head: int) -> float:
    c, limit = float(encoding.c[layer, 0]), 256 * float(encoding.length_factor[layer, 0])
    ratio = math.log(1 + c * abs(i - j)) / math.log(1 + c * max(i, limit))
    x = math.copysign(ratio, i - j)
    total = 0.0
    for unit in range(32):
        hidden = encoding.weight_in[layer, 0, unit] * x + encoding.bias_in[layer, 0, unit]
        total += max(0.0, float(hidden)) * float(encoding.weight_out[layer, 0, unit, head])
    return total


@pytest.mark.parametrize("limit", [5, 900])  # by pairs of values, and by pairs of tokens
@torch.no_grad()
def test_fire_is_the_formula_and_layers_have_their_own_parameters(limit):
    ids, encoding = some_ids(limit=limit), build("fire")
    encoding.c.add_(torch.tensor([[0.05], [0.2]]))
    encoding.length_factor.mul_(0.7)
    results = [encoding.bias(ids[:, 4:], ids, layer) for layer in range(2)]
    assert not torch.allclose(*results)
    for b, q, t in itertools.product((0, 2), range(5), (0, 3, 6, 8)):
        i, j = int(ids[b, 4 + q, 0]), int(ids[b, t, 0])
        for layer, head in itertools.product(range(2), (0, 3)):
            expected = fire_by_hand(encoding, i, j, layer, head)
            assert results[layer][b, head, q, t] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("name", ["alibi", "t5", "fire"])
def test_biases_stay_float32_under_autocast(name):
    ids, encoding = some_ids(), build(name)
    plain = encoding.bias(ids, ids, 0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = encoding.bias(ids, ids, 0)
    assert mixed.dtype == torch.float32
    assert torch.equal(mixed, plain)


def test_separate_tables_have_as_many_rows_as_their_level_has_ids():
    ids = some_ids(num_levels=2, limit=8)
    apart = build("learned", 2, max_positions=(9, 7), level_tables="separate")
    assert apart.table.shape == (10 + 8, 16)
    rows = apart.table[:10][ids[:, :, 0]] + apart.table[10:][ids[:, :, 1]]
    assert torch.equal(apart.embed(ids), rows)


@pytest.mark.parametrize("name", ["alibi", "t5", "fire", "sinusoidal", "learned"])
@pytest.mark.parametrize("tables", ["shared", "separate"])
def test_levels_are_summed(name, tables):
    ids = some_ids(num_levels=2)
    both = build(name, 2, level_tables=tables)

    def effect(use):
        return both.embed(use) if name in ("learned", "sinusoidal") else both.bias(use, use, 1)

    first, second, none = (ids * torch.tensor(keep) for keep in ([1, 0], [0, 1], [0, 0]))
    assert torch.allclose(effect(ids) + effect(none), effect(first) + effect(second), atol=1e-4)
    told_apart = not torch.allclose(effect(ids), effect(ids.flip(2)), atol=1e-4)
    assert told_apart == (tables == "separate" and name in ("learned", "t5", "fire"))


def test_a_frozen_table_is_not_trained():
    assert not build("learned", freeze_table=True).table.requires_grad
    assert not build("residues", freeze_table=True, moduli=(5, 6, 7)).table.requires_grad


@pytest.mark.parametrize("tables", ["shared", "separate"])
def test_residues_sum_a_row_of_every_ring_and_no_id_has_one_of_its_own(tables):
    moduli, ids = (5, 6, 7), some_ids(num_levels=2, limit=200)
    assert (ids == 0).any()
    encoding = build("residues", 2, moduli=moduli, level_tables=tables)
    got = encoding.embed(ids)
    for b, t in itertools.product(range(3), range(9)):
        expected = torch.zeros(16)
        for level in range(2):
            first = 19 * level * (tables == "separate")
            i = int(ids[b, t, level])
            rows = [1 + i % 5, 6 + i % 6, 12 + i % 7] if i else [0]
            expected += encoding.table[[first + row for row in rows]].sum(dim=0)
        torch.testing.assert_close(got[b, t], expected)


@torch.no_grad()
def test_residues_are_distinct_up_to_the_product_and_alike_where_all_but_one_ring_agree():
    model = ModelConfig(d_model=64)
    encoding = build("residues", 1, model, moduli=(7, 9, 10, 11), max_position=6930)
    table = encoding.table[1:]
    norm = (64 / 4) ** 0.5
    torch.testing.assert_close(table.norm(dim=1), torch.full((37,), norm))
    gram, first = table @ table.T, 0
    for m in (7, 9, 10, 11):
        ring = gram[first : first + m]
        inside = ring[:, first : first + m]
        # any two rows equally far apart (a simplex), the rows of other rings orthogonal
        expected = torch.full((m, m), -16 / (m - 1)).fill_diagonal_(16.0)
        torch.testing.assert_close(inside, expected, atol=1e-4, rtol=0)
        ring[:, first : first + m] = 0
        assert ring.abs().max() < 1e-4
        first += m
    rows = encoding.embed(torch.arange(1, 6931).view(1, -1, 1))[0]
    torch.testing.assert_close(rows[6929] @ rows[0], rows[0] @ rows[1], atol=1e-3, rtol=0)
    likeness = rows[1:] @ rows[0] / 64
    assert likeness.max() < 1 - 0.25  # distinct: at least one ring differs
    assert int((likeness > 0.7).nonzero()[0]) + 1 == 6930 // 11


@pytest.mark.parametrize("init", ["normal", "orthogonal", "rotation"])
def test_tables_have_rows_of_mean_square_one(init):
    table = make_table(init, 50, 64, make_generator("table"))
    assert table.square().mean() == pytest.approx(1, abs=0.1)
    if init == "orthogonal":
        assert torch.allclose(table @ table.T, 64 * torch.eye(50), atol=1e-3)
    if init == "rotation":  # the angle between rows depends on their distance alone
        gram = table @ table.T
        assert torch.allclose(gram[1:, 1:], gram[:-1, :-1], atol=1e-3)


# Every task with every encoding -----------------------------------------------------------------


def tiny(task: str) -> dict:
    lengths = [n for n in range(1, 30) if is_possible(TASKS[task](), n)][:3]
    return TINY | {
        "task.name": task,
        "position.max_position": 150,
        "model.d_model": 32,
        "data.min_length": lengths[0],
        "data.max_length": lengths[1],
        "optim.num_steps": 1,
        "eval.train_lengths": str(lengths[0]),
        "eval.test_lengths": str(lengths[2]),
        "eval.num_examples": 4,
    }


PAIRS = [  # of encoding and IDs, and of task and IDs
    (tuple(TASKS)[(i + j) % len(TASKS)], encoding, ids)
    for (i, ids), (j, encoding) in itertools.product(enumerate(IDS), enumerate(ENCODINGS))
]


@pytest.mark.parametrize(("task", "encoding", "ids"), PAIRS)
def test_every_pair_trains_or_is_refused_in_one_sentence(task, encoding, ids):
    changes = {"position.encoding": encoding} | ENCODINGS[encoding].needs
    config = override(TrialConfig(), tiny(task) | changes | {"position.ids": ids})
    try:
        *_, last = train(config)
    except ValueError:
        with pytest.raises(ValueError, match=r"\A.*position\..*\Z"):
            validate(config)
        return
    assert last.finished
    assert math.isfinite(last.loss)
    assert all(result.counts.num_examples == 4 for result in last.results)

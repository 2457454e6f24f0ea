"""Packed rows: every problem is in its row as it was alone, ranges of IDs keep apart, and the
schedule of problems per row changes nothing else. Rows without padding have the same gradients.
"""

import itertools
from collections import Counter

import pytest
import torch

from pcore.batch import NO_TARGET, cut_batch
from pcore.config import make_generator, override
from pcore.data import TrainingData
from pcore.encodings.apart import GAP, draw_apart, needed_ids
from pcore.encodings.position_ids import draw_position_ids
from pcore.model import make_model
from pcore.packing import find_per_row, phases
from pcore.tasks.base import NO_ID
from pcore.training import mean_loss
from pcore.validation import validate
from tests.support.obvious import mean_loss as obvious_loss

PACKED = {
    "data.problems_per_row": "4",
    "optim.batch_size": 16,
    "position.max_position": 60,
    "position.start": "wrapped",
}
EXPECTED = 150  # draws of each set of starts
VARIANTS = {
    "coupled": {},
    "on a line": {"position.start": "random"},
    "sharp, unpadded": {"model.attention_scale": "log-length", "task.zero_pad": False},
    "residues": {"position.encoding": "residues", "position.moduli": "3,5,7"},
    "RoPE": {
        "position.encoding": "rotary",
        "position.ids": "sequential",
        "position.max_position": 100,
    },
    "RoPE through the row": {
        "position.encoding": "rotary",
        "position.ids": "sequential",
        "position.start": "fixed",
        "data.packed_order": "row",
    },
    "APE through the row": {
        "position.ids": "sequential",
        "position.max_position": 100,
        "data.packed_order": "row",
    },
    "randomized": {
        "position.ids": "randomized",
        "position.start": "random",
        "position.max_position": 100,
        "data.packed_order": "row",
    },
    "FIRE": {"position.encoding": "fire", "position.ids": "sequential", "position.start": "fixed"},
    "two levels": {"task.scratchpad": True, "position.level_tables": "separate"},
}
ALONE = {"data.problems_per_row": "1", "position.start": "random", "data.max_length": 9}
ALONE |= {"optim.batch_size": 64, "eval.test_lengths": "10"}
SINGLE = {  # of one problem each, but of many lengths
    "coupled": {},
    "one layer": {"model.num_layers": 1},
    "NoPE": {"position.encoding": "none"},
    "FIRE": {"position.encoding": "fire", "position.ids": "sequential"},  # others: conformance
    "sharp, post-norm": {"model.attention_scale": "log-length", "model.norm_placement": "post"},
    "randomized": {"position.ids": "randomized", "position.max_position": 2000},
    "unpadded": {"task.zero_pad": False, "task.reverse_response": False},
}
VARIANTS |= {f"{name}, alone": ALONE | changes for name, changes in SINGLE.items()}


def packed(config, name="coupled"):
    return override(config, PACKED | VARIANTS[name])


def alone(config):
    return override(config, {"data.problems_per_row": "1"})


def problems_of(batch, vocab):
    """(tokens without BOS, IDs, targets) of the problems in each row: they end where EOS is due."""
    eos, rows = vocab.index["$"], []
    for tokens, ids, places, targets in zip(*batch[:4], strict=True):
        size, real = int((tokens != 0).sum()), targets != NO_TARGET
        assert not ids[size:].any()
        assert tokens[0] == vocab.index["$"]
        assert not ids[0].any()
        assert (tokens[1:size] != eos).all(), "EOS is no input"
        assert (places.diff() >= 0).all()
        assert (places[~real] == places[real][-1]).all()
        row, first, first_target = [], 1, 0
        for i in range(len(targets)):
            if targets[i] == eos:
                last = int(places[i]) + 1
                found = targets[first_target : i + 1]
                inner = places[first_target:i] + 1
                assert torch.equal(tokens[inner], found[:-1]), "a target is the next token"
                row.append(
                    (
                        tuple(tokens[first:last].tolist()),
                        tuple(map(tuple, ids[first:last].tolist())),
                        tuple(found.tolist()),
                    )
                )
                first, first_target = last, i + 1
        assert first == size
        rows.append(row)
    return rows


def relative(ids, limit):
    """IDs as steps from the first one, around the circle."""
    return tuple(tuple((a - b) % limit for a, b in zip(i, ids[0], strict=True)) for i in ids)


# Layout -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["coupled", "sharp, unpadded", "two levels"])
@pytest.mark.parametrize("static", [False, True])
def test_a_row_holds_the_same_problems_as_without_packing(tiny_config, name, static):
    config = packed(tiny_config, name)
    vocab, limit = config.task.vocab, config.position.max_position
    rows, plain = TrainingData(config, static=static), TrainingData(alone(config), static=static)
    for _ in range(3):
        found = problems_of(rows.next_batch(), vocab)
        assert [len(row) for row in found] == [4] * 4
        single = [row for (row,) in problems_of(plain.next_batch(), vocab)]
        for (tokens, ids, targets), other in zip(itertools.chain(*found), single, strict=True):
            assert (tokens, targets) == (other[0], other[2])
            assert relative(ids, limit) == relative(other[1], limit)


def test_ids_count_through_the_row_if_asked_to(tiny_config):
    config = packed(tiny_config, "APE through the row")
    for row in problems_of(TrainingData(config).next_batch(), config.task.vocab):
        ids = [i for _, ids, _ in row for (i,) in ids]
        assert {(b - a) % 100 for a, b in itertools.pairwise(ids)} == {1}
    config = packed(tiny_config, "randomized")
    for row in problems_of(TrainingData(config).next_batch(), config.task.vocab):
        ids = [i for _, ids, _ in row for (i,) in ids]
        assert ids == sorted(set(ids))


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("shared", [True, False])
def test_ragged_static_and_padded_rows_have_one_loss_and_one_gradient(
    tiny_config, name, shared, monkeypatch
):
    config = packed(tiny_config, name)
    validate(config)
    batch, model = TrainingData(config).next_batch(), make_model(config)
    if not shared:
        monkeypatch.setattr(model, "share", lambda *_: None)
    if "alone" in name:
        assert len(cut_batch(batch).parts) > 1
    wide = TrainingData(config, static=True).next_batch()
    assert wide.tokens.shape[1] > batch.tokens.shape[1]
    losses, gradients = [], []
    for loss in (
        mean_loss(model, *batch),
        mean_loss(model, *wide),
        mean_loss(model, *cut_batch(batch)),
    ):
        model.zero_grad()
        loss.backward()
        losses.append(loss.detach())
        gradients.append([p.grad for p in model.parameters() if p.grad is not None])
    for loss, gradient in zip(losses[1:], gradients[1:], strict=True):
        torch.testing.assert_close(loss, losses[0], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(gradient, gradients[0], rtol=1e-4, atol=1e-6)
    if config.position.encoding == "learned" and config.position.level_tables == "shared":
        plain = obvious_loss(model, config, batch)
        torch.testing.assert_close(losses[0], plain.detach(), rtol=1e-5, atol=1e-6)


# Schedule ---------------------------------------------------------------------------------------


def test_the_schedule_begins_where_it_says(tiny_config):
    changes = {
        "data.problems_per_row": "1,2,4,8,16",
        "data.packing_begins": "0.175,0.275,0.4,0.6",
        "optim.num_steps": 4000,
        "optim.batch_size": 64,
    }
    config = override(tiny_config, changes)
    found = [find_per_row(config, step) for step in range(4000)]
    begins = [i for i in range(1, 4000) if found[i] != found[i - 1]]
    assert begins == [700, 1100, 1600, 2400]
    per_row, shares = zip(*phases(config), strict=True)
    assert (found[0], *(found[i] for i in begins)) == per_row == (1, 2, 4, 8, 16)
    assert shares == pytest.approx([0.175, 0.1, 0.125, 0.2, 0.4])


# Starts -----------------------------------------------------------------------------------------


def draw(largest, limit, wrapped, count, seed=0):
    rows = torch.tensor(largest).view(1, -1, 1).expand(count, -1, 1)
    return draw_apart(rows, torch.tensor([limit]), wrapped, make_generator("apart", seed))[:, :, 0]


def allowed(starts, largest, limit, wrapped):
    """Whether ranges are in bounds and GAP apart, said plainly."""
    spans = sorted(zip(starts, largest, strict=True))
    if not wrapped and (spans[0][0] < 1 or spans[-1][0] + spans[-1][1] > limit):
        return False
    following = [*spans[1:], (spans[0][0] + limit, 0)] if wrapped else spans[1:]
    return all(b - a - size >= GAP for (a, size), (b, _) in zip(spans, following, strict=False))


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("largest", [(1, 0), (2, 1, 1), (0, 0, 0)])
def test_starts_are_uniform_over_all_allowed_ones(wrapped, largest):
    limit = 17
    every = [
        starts
        for starts in itertools.product(range(1, limit + 1), repeat=len(largest))
        if allowed(starts, largest, limit, wrapped)
    ]
    count = EXPECTED * len(every)
    found = Counter(map(tuple, draw(largest, limit, wrapped, count).tolist()))
    assert set(found) <= set(every)

    chi_square = sum((found[starts] - EXPECTED) ** 2 / EXPECTED for starts in every)

    assert chi_square < len(every) + 5 * (2 * len(every)) ** 0.5


@pytest.mark.parametrize("wrapped", [False, True])
def test_as_few_ids_as_needed_are_enough(wrapped):
    largest = (3, 1, 4, 1)
    limit = needed_ids(largest, wrapped)
    for starts in draw(largest, limit, wrapped, 200).tolist():
        assert allowed(starts, largest, limit, wrapped)
        assert not allowed(starts, largest, limit - 1, wrapped)


@pytest.mark.parametrize("name", ["coupled", "on a line", "two levels", "RoPE"])
def test_ranges_of_ids_in_a_row_keep_apart_on_every_level(tiny_config, name):
    config = packed(tiny_config, name)
    data, limit = TrainingData(config), config.position.max_position
    wrapped = config.position.start == "wrapped"
    for _ in range(20):
        for row in problems_of(data.next_batch(), config.task.vocab):
            for level in range(len(row[0][1][0])):
                ranges = [{ids[level] for ids in ids} for _, ids, _ in row]
                for a, b in itertools.combinations(ranges, 2):
                    gaps = [abs(i - j) for i in a for j in b]
                    if wrapped:
                        gaps = [min(gap, limit - gap) for gap in gaps]
                    assert min(gaps) >= GAP


@pytest.mark.parametrize("start", ["random", "wrapped"])
@pytest.mark.parametrize(
    ("task", "may"), [("minesweeper", {0, 1}), ("multiplication", {2}), ("addition", {0, 1})]
)
def test_ranges_overlap_only_on_a_level_that_no_token_has_alone(tiny_config, task, may, start):
    changes = {"task.name": task, "position.start": start, "data.packed_overlap": 0.5}
    changes |= {} if task == "minesweeper" else {"task.scratchpad": True}
    config = override(tiny_config, PACKED | changes)
    validate(config)
    rng, limit, seen = make_generator("overlap", 0), config.position.max_position, Counter()
    examples = config.task.sample_mixture(1200, 1, 3, rng).relative_ids
    ids = draw_position_ids(examples, config.position, rng, 4, config.data.packed_overlap)
    assert torch.equal(ids == 0, examples == NO_ID)
    assert ids.max() <= limit
    for row in ids.unflatten(0, (-1, 4)):
        ranges = [
            [set(problem.tolist()) - {0} for problem in level] for level in row.permute(2, 0, 1)
        ]
        met = [
            level
            for level, problems in enumerate(ranges)
            if any(a & b for a, b in itertools.combinations(problems, 2))
        ]
        assert len(met) <= 1
        seen.update(met)
    assert set(seen) == may
    assert 110 < seen.total() <= 180  # of 300 rows; a few do not meet by chance


def test_overlap_changes_nothing_but_ids(tiny_config):
    config = packed(tiny_config, "two levels")
    apart, near = (
        TrainingData(override(config, {"data.packed_overlap": share})).next_batch()
        for share in (0.0, 1.0)
    )
    assert not torch.equal(apart.ids, near.ids)
    assert all(map(torch.equal, apart._replace(ids=near.ids)[:4], near[:4]))


def test_overlap_needs_a_level_that_no_token_has_alone(tiny_config):
    config = override(tiny_config, PACKED | {"data.packed_overlap": 0.5})
    with pytest.raises(ValueError, match="no token has alone; addition has significance"):
        validate(config)
    with pytest.raises(ValueError, match=r"data\.packed_overlap"):
        validate(override(config, {"data.problems_per_row": "1"}))


@pytest.mark.parametrize("per_row", [1, 4])
def test_a_fixed_start_is_that_of_every_problem(tiny_config, per_row):
    changes = {"data.problems_per_row": per_row, "data.num_examples": 48}
    changes |= {"position.start": "fixed", "position.max_position": 9}
    config = override(packed(tiny_config), changes)
    validate(config)
    for row in problems_of(TrainingData(config).next_batch(), config.task.vocab):
        for tokens, ids, _ in row:
            assert ids[tokens.index(config.task.vocab.index["="])] == (1,)


# Refusals, identity and cost --------------------------------------------------------------------

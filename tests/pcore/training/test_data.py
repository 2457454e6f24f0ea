"""Training data: a fixed list visited evenly, or fresh examples; a new start at each visit."""

from collections import Counter

import pytest
import torch

from pcore import data as data_module
from pcore.batch import NO_TARGET
from pcore.config import override
from pcore.data import TrainingData
from tests.support.same import assert_same


def read(data, count):
    """(tokens, IDs, mask) of `count` examples, one tuple each, with EOS and without padding."""
    rows = []
    while len(rows) < count:
        rows += rows_of(data.next_batch())
    assert len(rows) == count
    return rows


def rows_of(batch):
    """(tokens, IDs, mask) of every example of a batch, with EOS and without padding."""
    rows = []
    for tokens, ids, places, targets in zip(*batch[:4], strict=True):
        size, real = int((tokens != 0).sum()), targets != NO_TARGET
        assert not ids[size:].any(), "padding carries no ID"
        assert places[real][-1] == size - 1, "the last target follows the last token"
        whole = torch.cat([tokens[:size], targets[real][-1:]])
        assert torch.equal(whole[places[real] + 1], targets[real])
        mask = torch.isin(torch.arange(size + 1), places[real] + 1)
        none = (0,) * ids.shape[1]
        rows.append(
            (
                tuple(whole.tolist()),
                (*map(tuple, ids[:size].tolist()), none),
                tuple(mask.tolist()),
            )
        )
    return rows


@pytest.fixture
def fixed_config(tiny_config):
    """48 examples in batches of 10: a pass never ends with a batch."""
    return override(tiny_config, {"data.num_examples": 48, "optim.batch_size": 10})


def test_every_pass_visits_every_example_once(fixed_config):
    rows = [row[0] for row in read(TrainingData(fixed_config), 240)]
    passes = [rows[first : first + 48] for first in range(0, 240, 48)]
    assert len(set(passes[0])) > 40
    for other in passes[1:]:
        assert Counter(other) == Counter(passes[0])
    assert len(set(map(tuple, passes))) == 5, "each in an order of its own"


def test_the_start_is_drawn_anew_at_every_visit(fixed_config):
    visits = {}
    for tokens, ids, _ in read(TrainingData(fixed_config), 480):
        equals = tokens.index(fixed_config.task.vocab.index["="])
        visits.setdefault(tokens, []).append(ids[equals][0])
    assert all(len(set(starts)) > 1 for starts in visits.values())
    starts = [s for found in visits.values() for s in found]
    assert min(starts) == 1
    assert max(starts) > 14


def test_a_fixed_start_is_one(fixed_config):
    config = override(fixed_config, {"position.start": "fixed"})
    for tokens, ids, _ in read(TrainingData(config), 50):
        assert ids[tokens.index(config.task.vocab.index["="])] == (1,)


def test_fresh_examples_do_not_repeat(tiny_config):
    config = override(tiny_config, {"data.min_length": 9, "data.max_length": 12})
    rows = [row[0] for row in read(TrainingData(config), 320)]
    assert len(set(rows)) == 320


def test_targets_are_the_response_and_eos(tiny_config):
    vocab = tiny_config.task.vocab
    for tokens, _, mask in read(TrainingData(tiny_config), 64):
        equals = tokens.index(vocab.index["="])
        assert mask == tuple(place > equals for place in range(len(tokens)))
        assert tokens[-1] == vocab.index["$"]


def test_a_fixed_list_longer_than_a_chunk_holds_all_its_examples(tiny_config, monkeypatch):
    """Chunks differ in width; joining them must neither cut nor shift anything."""
    monkeypatch.setattr("pcore.data.CHUNK", 7)
    config = override(tiny_config, {"data.num_examples": 30, "optim.batch_size": 30})
    for tokens, ids, mask in read(TrainingData(config), 30):
        query, response = config.task.decode(torch.tensor(tokens))
        left, right = query.split("+")
        assert int(left) + int(right) == int(response[::-1])
        again = config.task.encode(f"{left}+{right}")
        if left.lstrip("0") and len(left.lstrip("0")) == len(left):  # padding told the length
            assert tuple(again.tokens[0].tolist()) == tokens
            assert tuple(again.response_mask[0].tolist()) == mask
            shift = {
                i[0] - r
                for i, r in zip(ids, again.relative_ids[0, :, 0].tolist(), strict=True)
                if r >= 0
            }
            assert len(shift) == 1


PACKED = {
    "data.problems_per_row": "1,2,4",
    "data.packing_begins": "0.25,0.6",
    "position.start": "wrapped",
    "position.max_position": 60,
}
STREAMS = [
    {},
    PACKED,
    {"position.id_scale_max": 3, "position.encoding": "rotary"},
    {"position.ids": "randomized", "position.encoding": "none"},
]


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("block", [1, 80])  # of 5 batches, in which the rows of PACKED change
@pytest.mark.parametrize("num_examples", [None, 40])  # passes end inside of blocks and batches
@pytest.mark.parametrize("changes", STREAMS, ids=str)
def test_the_stream_resumes_exactly_at_every_step(
    tiny_config, monkeypatch, changes, num_examples, block, static
):
    monkeypatch.setitem(data_module.BLOCK, "cpu", block)
    config = override(tiny_config, changes | {"data.num_examples": num_examples})
    whole, states, batches = TrainingData(config, static=static), [], []
    for _ in range(12):
        states.append(whole.state_dict())
        batches.append(whole.next_batch())
    sizes = [16] * 3 + [8] * 4 + [4] * 5 if changes is PACKED else [16] * 12
    assert [len(batch.tokens) for batch in batches] == sizes
    for i, state in enumerate(states[:-1]):  # by induction all that follows
        resumed = TrainingData(config, static=static)
        resumed.load_state_dict(state)
        assert_same(resumed.next_batch(), batches[i])
        assert_same(resumed.state_dict(), states[i + 1])

"""Training data: a fixed list visited evenly, or fresh examples; a new start at each visit."""

from collections import Counter

import pytest

from pcore import data as data_module
from pcore.config import override
from pcore.data import TrainingData
from tests.pcore.model.test_packing import problems_of
from tests.support.same import assert_same


def read(config, count):
    """(tokens without BOS, IDs, targets) of `count` examples."""
    data, rows = TrainingData(config), []
    while len(rows) < count:
        rows += [row for (row,) in problems_of(data.next_batch(), config.task.vocab)]
    assert len(rows) == count
    return rows


@pytest.fixture
def fixed_config(tiny_config):
    """48 examples in batches of 10: a pass never ends with a batch."""
    return override(tiny_config, {"data.num_examples": 48, "optim.batch_size": 10})


def test_every_pass_visits_every_example_once_at_a_new_start(fixed_config):
    visits, equals = {}, fixed_config.task.vocab.index["="]
    for tokens, ids, _ in (rows := read(fixed_config, 480)):
        visits.setdefault(tokens, []).append(ids[tokens.index(equals)][0])
    assert all(len(set(starts)) > 1 for starts in visits.values())
    rows = [row[0] for row in rows]
    passes = [rows[first : first + 48] for first in range(0, 480, 48)]
    assert len(set(passes[0])) > 40
    for other in passes[1:]:
        assert Counter(other) == Counter(passes[0])
    assert len(set(map(tuple, passes))) == 10, "each in an order of its own"


def test_fresh_examples_do_not_repeat(tiny_config):
    config = override(tiny_config, {"data.min_length": 9, "data.max_length": 12})
    rows = [row[0] for row in read(config, 320)]
    assert len(set(rows)) == 320


def test_targets_are_the_response_and_eos(tiny_config):
    vocab = tiny_config.task.vocab
    for tokens, _, targets in read(tiny_config, 64):
        equals = tokens.index(vocab.index["="])
        assert targets == (*tokens[equals + 1 :], vocab.index["$"])


def test_a_fixed_list_longer_than_a_chunk_holds_all_its_examples(tiny_config, monkeypatch):
    """Chunks differ in width; joining them must neither cut nor shift anything."""
    monkeypatch.setattr("pcore.data.CHUNK", 7)
    config = override(tiny_config, {"data.num_examples": 30, "optim.batch_size": 30})
    for tokens, ids, _ in read(config, 30):
        query, response = "".join(config.task.vocab.decode(list(tokens))).split("=")
        left, right = query.split("+")
        assert int(left) + int(right) == int(response[::-1])
        again = config.task.encode(f"{left}+{right}")
        if left.lstrip("0") and len(left.lstrip("0")) == len(left):  # padding told the length
            relative_ids = again.relative_ids[0, 1:-1, 0].tolist()
            assert len({i - r for (i,), r in zip(ids, relative_ids, strict=True)}) == 1


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

"""Position IDs: every stream, every start, in training and in evaluation."""

import pytest
import torch

from pcore.config import make_generator
from pcore.encodings import position_ids as positions
from pcore.settings import PositionConfig
from pcore.tasks.addition import Addition
from pcore.tasks.base import NO_ID
from tests.pcore.tasks.test_sampling import looks_uniform


def rng(seed=0):
    return make_generator("test-positions", seed)


def relative(ids: str, task=None, query="653+49") -> list[int]:
    task = task or Addition()
    got = positions.select_relative_ids(task.encode(query), PositionConfig(ids=ids), task)
    return got[0, :, 0].tolist()


def test_sequential_counts_from_the_query_to_the_last_response_token():
    assert relative("sequential") == [-1, *range(12), -1]
    assert relative("randomized") == relative("sequential")


def test_abacus_is_the_index_of_a_digit_in_its_number():
    task = Addition(zero_pad=False, reverse_query=True)
    #                                 $  3  5  6   +  9  4   =  2  0  7   $
    assert relative("abacus", task) == [-1, 0, 1, 2, -1, 0, 1, -1, 0, 1, 2, -1]


@pytest.mark.parametrize(
    ("start", "max_start", "room"), [("random", 0, 12 - 4), ("random", 5, 5), ("wrapped", 0, 12)]
)
def test_starts_are_uniform_and_a_wrapped_one_goes_on_at_one(start, max_start, room):
    position = PositionConfig(start=start, max_start=max_start, max_position=12)
    stream = torch.arange(5).view(1, 5, 1).expand(20_000, 5, 1)
    drawn = positions.draw_position_ids(stream, position, rng())[:, :, 0]
    assert looks_uniform(drawn[:, 0], 1, room)
    assert (drawn.diff(dim=1) % 12 == 1).all()
    assert (drawn.min(), drawn.max()) == (1, min(room + 4, 12))


def test_levels_start_independently_and_keep_their_own_limits():
    position = PositionConfig(max_positions=(40, 7))
    stream = torch.stack([torch.arange(5), torch.arange(5)], dim=1).expand(4000, 5, 2)
    starts = positions.draw_position_ids(stream, position, rng())[:, 0]
    assert starts.amax(dim=0).tolist() == [36, 3]
    assert len(starts.unique(dim=0)) == 36 * 3


def test_randomized_ids_are_sorted_distinct_and_uniform_for_short_examples_too():
    position = PositionConfig(ids="randomized", max_position=10)
    short = torch.tensor([NO_ID, 0, 1, NO_ID, NO_ID, NO_ID])
    long = torch.tensor([NO_ID, 0, 1, 2, 3, NO_ID])
    stream = torch.stack([short, long]).repeat(20_000, 1).unsqueeze(2)
    drawn = positions.draw_position_ids(stream, position, rng()).squeeze(2)
    assert (drawn[stream.squeeze(2) == NO_ID] == 0).all()
    for row, count in ((drawn[0::2], 2), (drawn[1::2], 4)):
        ids = row[:, 1 : 1 + count]
        assert (ids[:, 1:] > ids[:, :-1]).all()
        # every ID is in the subset with probability count / 10
        share = torch.bincount(ids.flatten(), minlength=11)[1:] / len(ids)
        assert (share - count / 10).abs().max() < 0.02


def test_id_scaling_multiplies_the_whole_batch_by_one_integer_in_training_only():
    position = PositionConfig(encoding="rotary", start="fixed", id_scale_max=5)
    stream = torch.arange(4).view(1, 4, 1).expand(3, 4, 1)
    generator, scales = rng(), set()
    for _ in range(60):
        drawn = positions.draw_position_ids(stream, position, generator)
        scale = int(drawn[0, 0, 0])
        assert torch.equal(drawn, (stream + 1) * scale)
        scales.add(scale)
    assert scales == {1, 2, 3, 4, 5}
    assert torch.equal(positions.test_position_ids(stream, position), stream + 1)


def test_evaluation_counts_from_test_start():
    stream = torch.tensor([NO_ID, 0, 1, 2, NO_ID]).view(1, 5, 1)
    got = positions.test_position_ids(stream, PositionConfig(test_start=7))
    assert got.flatten().tolist() == [0, 7, 8, 9, 0]


@pytest.mark.parametrize(
    "position",
    [
        PositionConfig(test_policy="random", max_position=50),
        PositionConfig(test_policy="wrapped", max_position=50),
        PositionConfig(ids="randomized", max_position=50),
    ],
)
def test_random_test_ids_vary_by_row_and_never_change(position):
    stream = torch.arange(5).view(1, 5, 1).expand(300, 5, 1)
    first = positions.test_position_ids(stream, position)
    torch.manual_seed(3)
    assert torch.equal(first, positions.test_position_ids(stream, position))
    assert len(first.unique(dim=0)) > 30
    assert first.min() >= 1
    assert first.max() <= 50


def test_the_longest_run_decides_how_many_abacus_ids_are_needed():
    task = Addition(zero_pad=False, reverse_query=True)
    assert positions.max_relative_ids(task, "abacus", 20) == (20,)  # 21 digits in the response
    assert positions.max_relative_ids(task, "sequential", 20) == (20 + 20 + 21 + 1,)
    assert positions.max_relative_ids(task, "coupled", 20) == (21,)

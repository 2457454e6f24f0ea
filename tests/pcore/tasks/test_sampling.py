"""Random examples follow the distributions of the papers, and the seed alone decides them."""

import pytest
import torch
from torch import Tensor

from pcore.tasks import Task
from pcore.tasks.addition import Addition
from pcore.tasks.commands import Commands
from pcore.tasks.digits import add_digits, draw_numbers
from pcore.tasks.minesweeper import Minesweeper
from pcore.tasks.multiplication import Multiplication
from pcore.tasks.strings import Copy
from tests.support.task_oracles import VARIANTS, make_rng, respond, trim

every_task = pytest.mark.parametrize("task", VARIANTS.values(), ids=VARIANTS.keys())


def looks_uniform(values: Tensor, low: int, high: int) -> bool:
    """Chi-square over the integers [low, high], at 5 standard deviations of the statistic."""
    assert int(values.min()) >= low
    assert int(values.max()) <= high
    counts = torch.bincount(values.flatten() - low, minlength=high - low + 1).double()
    expected = counts.sum() / len(counts)
    freedom = len(counts) - 1
    statistic = float(((counts - expected) ** 2 / expected).sum())
    return abs(statistic - freedom) < 5 * (2 * freedom) ** 0.5 + 5


def test_numbers_are_uniform_among_those_of_their_digit_count():
    num_digits = torch.tensor([[0, 1, 2, 3]]).expand(20_000, -1)
    digits = draw_numbers(num_digits, 6, make_rng(1)).long()
    numbers = (digits * 10 ** torch.arange(6)).sum(dim=2)
    assert not numbers[:, 0].any()
    assert looks_uniform(numbers[:, 1], 0, 9)
    assert looks_uniform(numbers[:, 2], 10, 99)
    assert looks_uniform(numbers[:, 3], 100, 999)


def test_addition_carries_through_many_operands():
    numbers = torch.full((1, 250, 8), 9, dtype=torch.uint8)
    numbers[:, :, 4:] = 0
    total = add_digits(numbers)[0].tolist()
    assert int("".join(map(str, reversed(total)))) == 250 * 9999


def test_operand_lengths_are_uniform_and_independent():
    sizes = Addition().draw_sizes(30_000, 1, 30, make_rng(2))
    assert looks_uniform(sizes[:, 0], 1, 30)
    assert looks_uniform(sizes[:, 1], 1, 30)
    assert looks_uniform(30 * (sizes[:, 0] - 1) + sizes[:, 1] - 1, 0, 899)


def test_scratchpad_addition_is_partially_uniform():
    task = Addition(num_operands=10, min_operands=2, scratchpad=True)
    sizes = task.draw_sizes(30_000, 1, 10, make_rng(3))
    count = (sizes > 0).sum(dim=1)
    assert looks_uniform(count, 2, 10)
    assert looks_uniform(sizes[:, 0], 1, 10)
    present = torch.arange(10) < count.unsqueeze(1)
    assert torch.equal(present, sizes > 0)
    many = count >= 6  # there, independent draws agree only once in 10^5
    common = ((sizes == sizes[:, :1]) | ~present).all(dim=1)
    assert float(common[many].double().mean()) == pytest.approx(0.5, abs=0.02)


def test_second_factor_is_a_uniform_string():
    task = Multiplication(second_length=2)
    batch = task.sample_length(20_000, 4, make_rng(4))
    zero = task.vocab.index["0"]
    digits = batch.tokens - zero
    assert looks_uniform(10 * digits[:, 6] + digits[:, 7], 0, 99)
    assert looks_uniform(digits[:, 1], 1, 9)
    assert torch.unique(task.draw_sizes(99, 1, 9, make_rng())[:, 1]).tolist() == [2]


def test_scratchpad_factors_vary_both():
    sizes = Multiplication(scratchpad=True).draw_sizes(20_000, 1, 10, make_rng(5))
    assert looks_uniform(10 * (sizes[:, 0] - 1) + sizes[:, 1] - 1, 0, 99)


def test_copied_strings_are_uniform_with_leading_zeros():
    task = Copy()
    digits = task.sample_length(20_000, 3, make_rng(6)).tokens[:, 1:4] - task.vocab.index["0"]
    assert looks_uniform((digits * torch.tensor([100, 10, 1])).sum(dim=1), 0, 999)


def test_mine_density_varies_between_boards():
    task = Minesweeper()
    sizes = task.draw_sizes(20_000, 5, 9, make_rng(7))
    assert looks_uniform(5 * (sizes[:, 0] - 5) + sizes[:, 1] - 5, 0, 24)
    batch = task.sample_length(20_000, 15, make_rng(8))
    mines = (batch.tokens[:, 1 : 1 + 225] == task.vocab.index["M"]).double().mean(dim=1)
    assert float(mines.mean()) == pytest.approx(0.175, abs=0.002)
    spread = 0.15**2 / 12 + 0.175 * 0.825 / 225  # of U(0.1, 0.25), plus that of the cells
    assert float(mines.std()) == pytest.approx(spread**0.5, rel=0.03)


def test_words_are_uniform():
    task = Commands()
    tokens = task.sample_length(20_000, 2, make_rng(9)).tokens
    index = task.vocab.index
    assert looks_uniform(tokens[:, 1], index["walk"], index["look"])
    assert looks_uniform(tokens[:, 2], index["left"], index["twice"])
    assert looks_uniform(tokens[:, 3], index["and"], index["after"])


def test_first_hints_reach_all_places():
    task = Addition(index_hints=True, num_hints=12)
    batch = task.sample_length(20_000, 3, make_rng(10))
    assert torch.unique(batch.tokens[:, 1]).tolist() == [task.vocab.index["a"]]  # at test
    drawn = task.sample(torch.tensor([[3, 3]]).expand(20_000, -1), make_rng(10)).tokens[:, 1]
    assert looks_uniform(drawn, task.vocab.index["a"], task.vocab.index["i"])  # 12 - 4 + 1 places


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@every_task
def test_examples_drawn_on_a_gpu_are_right(task: Task):
    rng = make_rng(3, "cuda")
    sizes = task.draw_sizes(500, 1, 9, rng)
    batch = task.sample(sizes, rng)
    assert {part.device.type for part in batch} == {"cuda"}
    batch = type(batch)(*(part.cpu() for part in batch))
    for row in range(500):
        wanted = tuple(sizes[row].tolist())
        query, response = task.decode(trim(batch, row).tokens[0])
        assert response == respond(task, query, wanted)

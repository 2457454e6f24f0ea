"""Our changes of published formats, on the examples in the docstrings of these."""

import pytest
import torch

from pcore.tasks import Symbol, Task
from sweeps.minesweeper_ahead import Ahead
from sweeps.product_rows import ProductRows
from sweeps.sum_rows import SumRows


def test_a_token_ahead_has_the_ids_of_the_cell_that_it_predicts():
    (ids,) = Ahead().encode("EME/EEE").relative_ids
    assert ids.T[:, 7:].tolist() == [[1, 2, 3, 1, 2, 3, 0, -1], [1, 1, 1, 2, 2, 2, 0, -1]]
    assert torch.equal(ids[1:7], ids[7:13])


def test_each_addend_of_a_sum_is_a_fixed_step_before_it():
    task = ProductRows(scratchpad=True)
    example = task.encode("5*79")
    assert task.decode(example.tokens[0]) == ("5*79", "954*+753*+****>54*>93*>593*")
    digit_of_a, row, significance = example.relative_ids[0, :-1].T.tolist()
    none = [-1]
    rows = [*2 * [0, 2, 4, 6, 8], 0, 3, 5, 7, 9, *none * 8, *5 * [0]]
    assert digit_of_a == [-1, 5, 7, *none * 2, *rows]
    assert row == [*none * 2, 2, 1, 0, *5 * [0], *5 * [1], 2, *none * 17]
    products = [22, 23, 24, *none * 2, 63, 64, 65]
    sums = [41, 42, 43, 44, 82, 83, 84, 85, 81, 122, 123, 124, 125]
    assert significance == [*none * 7, *products, *none * 2, 1, 2, 3, *sums]
    text = "5060*+4840*+3630*+*****>060*>450*>140*>04140*"
    assert task.decode(task.encode("12*345").tokens[0])[1] == text
    assert task.decode(task.encode("595*7").tokens[0])[1] == "75614*+******>5614*>5614*"
    plain = ProductRows()
    assert plain.decode(plain.encode("59*79").tokens[0])[1] == "1664"


@pytest.mark.parametrize("shape", [(5, 4), (17, 3)])
def test_no_token_but_its_addends_is_a_step_before_a_digit_of_a_sum(shape: tuple[int, int]):
    first, second = shape
    layout = ProductRows(scratchpad=True).layout(shape)
    sums = [Symbol(2 * j + 3, j + k) for j in range(second) for k in range(first + 1)]
    token_of = {symbol: token for token, symbol in reversed([*enumerate(layout.sources)])}
    level = [ids[2] for ids in layout.relative_ids]
    for symbol in sums:
        token = token_of[symbol]
        product, before = (
            [layout.sources[n] for n in range(token) if level[n] == level[token] - step]
            for step in (20, 40)
        )
        j = (symbol.field - 3) // 2
        assert product == [Symbol(2 * j + 2, symbol.index - j)]
        inside = j and symbol.index < j + first
        assert before == [Symbol(2 * j + 1, symbol.index) if inside else "*"]


def test_the_addends_of_a_running_sum_are_one_and_two_steps_before_it():
    task = SumRows(scratchpad=True, num_operands=3)
    example = task.encode("57+48+96")
    assert task.decode(example.tokens[0]) == ("057+048+096", ">501+>102=")
    sums = [40, 41, 42, 43, 44, 80, 81, 82, 83, 84]
    operands = [3, 2, 1, 4, 23, 22, 21, 24, 63, 62, 61, 64]
    assert example.relative_ids[0, 1:-1].flatten().tolist() == operands + sums
    layout = task.layout((12, 5))
    at = {ids[0]: source for source, ids in zip(layout.sources, layout.relative_ids, strict=True)}
    assert len(at) == len(layout.sources), "no two tokens have one ID"
    for place, source in at.items():
        if isinstance(source, Symbol) and place >= 40 and source.field % 2 == 0:
            field, k = source.field, source.index
            assert at[place - 20] == Symbol(field - 1, k)
            assert at[place - 40] == Symbol(field - 2 if field > 4 else 1, k)
    plain = SumRows()
    assert plain.decode(plain.encode("57+48").tokens[0])[1] == "501"


@pytest.mark.parametrize(("task", "shape"), [(ProductRows, (18, 1)), (SumRows, (4, 18))])
def test_rows_longer_than_their_step_are_refused(task: type[Task], shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="row_step=20 is below 21"):
        task(scratchpad=True).layout(shape)

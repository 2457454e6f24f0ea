"""Our changes of published formats, on the examples in the docstrings of these."""

import torch

from pcore.tasks import Symbol
from sweeps.layouts import Ahead, ShortSums
from sweeps.product_rows import ProductRows


def test_a_token_ahead_has_the_ids_of_the_cell_that_it_predicts():
    (ids,) = Ahead().encode("EME/EEE").relative_ids
    assert ids.T[:, 7:].tolist() == [[1, 2, 3, 1, 2, 3, 0, -1], [1, 1, 1, 2, 2, 2, 0, -1]]
    assert torch.equal(ids[1:7], ids[7:13])


def test_running_sums_end_with_their_products():
    task = ShortSums(scratchpad=True)
    example = task.encode("595*79")
    assert task.decode(example.tokens[0]) == ("595*79", "5535+5614=5535>50074")
    first, second, significance = example.relative_ids[0, 17:-1].T.tolist()
    assert set(first) == {-1}
    assert second == [0] * 5 + [1] * 6
    assert significance == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5]
    plain = ShortSums()
    assert plain.decode(plain.encode("595*79").tokens[0])[1] == "50074"


def test_both_addends_of_a_sum_have_the_ids_that_come_before_its_own():
    task = ProductRows(scratchpad=True)
    example = task.encode("5*79")
    assert task.decode(example.tokens[0]) == ("5*79", "954*+753*+****>54*>93*>593*")
    digit_of_a, row, significance = example.relative_ids[0, :-1].T.tolist()
    none = [-1]
    rows = [*2 * [0, 2, 4, 6, 8], 0, 3, 5, 7, 9, *none * 8, *5 * [0]]
    assert digit_of_a == [-1, 5, 7, *none * 2, *rows]
    rows = [*5 * [0], *5 * [1], 2, *4 * [0], *4 * [1], *4 * [2]]
    assert row == [*none * 2, 2, 1, 0, *rows, 2, *4 * [3]]
    rows = [2, 3, 4, *none * 2, 3, 4, 5, *none * 2, 1, 2, 3, *range(1, 5), *range(2, 6)]
    assert significance == [*none * 7, *rows, *range(1, 6)]
    text = "5060*+4840*+3630*+*****>060*>450*>140*>04140*"
    assert task.decode(task.encode("12*345").tokens[0])[1] == text
    assert task.decode(task.encode("595*7").tokens[0])[1] == "75614*+******>5614*>5614*"
    plain = ProductRows()
    assert plain.decode(plain.encode("59*79").tokens[0])[1] == "1664"


def test_a_digit_of_a_sum_has_one_addend_in_a_product_and_one_in_the_sum_before():
    layout = ProductRows(scratchpad=True).layout((5, 4))
    sums = [Symbol(2 * j + 3, j + k) for j in range(4) for k in range(6)]
    token_of = {symbol: token for token, symbol in reversed([*enumerate(layout.sources)])}
    ids = layout.relative_ids
    for symbol in sums:
        token = token_of[symbol]
        _, row, significance = ids[token]
        addends = [n for n in range(token) if ids[n][1:] == (row - 1, significance)]
        product, before = (layout.sources[n] for n in addends)
        j = (symbol.field - 3) // 2
        assert product == Symbol(2 * j + 2, symbol.index - j)
        inside = j and symbol.index < j + 5
        assert before == (Symbol(2 * j + 1, symbol.index) if inside else "*")

"""Our changes of published formats, on the examples in the docstrings of these."""

import torch

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


def test_products_and_sums_are_rows_of_equal_form():
    task = ProductRows(scratchpad=True)
    example = task.encode("5*79")
    assert task.decode(example.tokens[0]) == ("5*79", "540+530+000>930=59300")
    digit_of_a, row, significance = example.relative_ids[0, :-1].T.tolist()
    none = [-1]
    from_a = [2, 4, 6, 8]
    assert digit_of_a == [-1, 5, 7, *none * 2, *4 * from_a, 0, 0, *from_a]
    assert row == [*none * 2, 6, 4, 1, *4 * [0], *4 * [3], *4 * [5], *4 * [2], 2, *5 * [4]]
    rows = [*range(4), *range(1, 5), *range(2, 6), *range(1, 5)]
    assert significance == [*none * 2, 5, *none * 2, *rows, *range(6)]
    text = "0600+8400+6300+0000>4500>1400=0414000"
    assert task.decode(task.encode("12*345").tokens[0])[1] == text
    assert task.decode(task.encode("595*7").tokens[0])[1] == "56140+00000=561400"
    plain = ProductRows()
    assert plain.decode(plain.encode("59*79").tokens[0])[1] == "1664"

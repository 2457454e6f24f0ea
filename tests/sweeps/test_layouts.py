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


def test_both_addends_of_a_sum_have_the_ids_that_come_before_its_own():
    task = ProductRows(scratchpad=True)
    example = task.encode("5*79")
    assert task.decode(example.tokens[0]) == ("5*79", "5407530****>540>930>5930")
    digit_of_a, row, significance = example.relative_ids[0, :-1].T.tolist()
    none = [-1]
    products, sums = [0, 3, 6, 9], [2, 5, 8, 11]
    assert digit_of_a == [-1, 4, 7, *none * 2, *2 * products, *3 * sums, *5 * none]
    assert row == [*none * 2, 2, 1, *5 * [0], *4 * [1], *4 * [0], *4 * [1], *4 * [2], 1, *4 * [2]]
    rows = [-1, 2, 3, 4, -1, 3, 4, 5, -1, 1, 2, 3, *range(1, 5), *range(2, 6)]
    assert significance == [*none * 2, 6, *none * 2, *rows, *range(1, 6)]
    text = "06004840036300*****>0600>4500>1400>041400"
    assert task.decode(task.encode("12*345").tokens[0])[1] == text
    assert task.decode(task.encode("595*7").tokens[0])[1] == "56140******>56140>56140"
    plain = ProductRows()
    assert plain.decode(plain.encode("59*79").tokens[0])[1] == "1664"


def test_one_addend_of_each_digit_of_a_sum_is_of_a_product_and_one_of_the_sum_before():
    layout = ProductRows(scratchpad=True).layout((5, 4))
    ids = list(zip(*layout.relative_ids, strict=True))
    last = len(ids) - 5 - 4 - 2  # where the answer begins
    for token, (place, row, significance) in enumerate(ids[:last]):
        if place % 3 != 2 or row == 0 or place > 3 * 5 + 2:
            continue  # no sum, or no digit of A is left
        addends = [
            ids[other][0] % 3
            for other in range(token)
            if ids[other][1:] == (row - 1, significance + 1)
        ]
        assert addends == [0, 2]

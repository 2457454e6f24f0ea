"""Addition of two numbers as weights: one layer with two heads, operands of up to 2^P - 2 digits.

Source: Cho et al., Position Coupling (arXiv 2405.20671), Theorem 5.1 and its proof. The width is
d = 17 + 2P, where P is the number of bits of a position vector, so the longest operands have
2^floor((d-17)/2) - 2 digits. The format is that of `pcore.tasks.Addition` with its defaults, the
position IDs those of evaluation (relative ID + 1).

    column        $  6 5 3 + 0 4 9  =   2   0   7   0
    ID            .  4 3 2 1 4 3 2  1   2   3   4   5
    PRE_SUM                         12  9   6   0   0     head 1: both digits of the next ID
    PRE_CARRY                        0  14  9  13   0     head 2: the three digits of the same ID
    PRE_EOS                        2/3 1/2 1/2 1/2  1     head 2: how much BOS is attended
    next                            2   0   7   0   $

A response digit c under a and b shows the carry out of its column: a + b - c is -1 or 0 without
one, 9 or 10 with one. So PRE_SUM + (a + b - c)/10 + 0.21 is within 0.11 ... 0.21 of the next digit,
or of that plus 10, and a ramp up and a ramp down for each digit tell which.

With residue rings instead of signs (ours) the width is 17 plus the sum of the moduli, and operands
of up to their product less 2 digits are exact. One block of rows suffices: the next ID is each ring
turned by one, which the query matrix of head 1 does. IDs that agree in all rings but one score M
less than equal ones, wherever they lie; twice the scale of the signs makes up for it.
"""

import math
from collections.abc import Sequence

from pcore.tasks.addition import Addition
from pcore.theory.formal import (
    Form,
    FormalTransformer,
    Lookup,
    Plan,
    ReluLayer,
    Rows,
    default_scale,
    make_embedding,
    make_positions,
    make_read_out,
    ring_vectors,
    sign_vectors,
    turn_rings,
)


def max_digits(num_bits: int, moduli: Sequence[int] = ()) -> int:
    """The longest operands of the theorem: IDs 1 ... l + 2 need vectors of their own."""
    return (math.prod(moduli) if moduli else 2**num_bits) - 2


def make_addition(
    num_bits: int,
    *,
    scale: float | None = None,
    num_ids: int | None = None,
    moduli: Sequence[int] = (),
) -> FormalTransformer:
    """The construction for operands of up to `max_digits(num_bits, moduli)` digits, in float64.

    scale: M of the proof; None = `default_scale`. num_ids: position IDs that the table has; None =
    all that differ. moduli: of residue rings, pairwise coprime; () = signs of `num_bits` bits.
    """
    rows, task = Rows(), Addition()
    num, is_bos, ones = (rows.one(name) for name in ("NUM", "IS_BOS", "FULL_ONES"))
    pre_sum, pre_carry, pre_eos = (rows.one(n) for n in ("PRE_SUM", "PRE_CARRY", "PRE_EOS"))
    digits, is_eos = rows.block("SUM", 10), rows.one("IS_EOS")
    vectors = ring_vectors(moduli) if moduli else sign_vectors(num_bits)
    here = rows.block("POS", vectors.shape[1])
    following = turn_rings(here, moduli) if moduli else rows.block("NEXT_POS", num_bits)
    blocks = {0: here} if moduli else {0: here, 1: following}

    scale = scale or default_scale(3 * len(vectors) - 2, lead=1 if moduli else 2)
    look = Lookup(scale, ones, is_bos, match=len(moduli))
    heads = [
        look.by_position(following, here, (pre_sum, 3 * num)),
        look.by_position(here, here, (pre_carry, 4 * num), (pre_eos, 2 * is_bos)),
    ]
    layer = ReluLayer()  # 80 hidden units, and two for EOS
    writes = choose_digit(layer, pre_sum + (pre_carry - 2 * num) / 10 + 0.21, digits)
    writes.append((is_eos, layer.ramp(pre_eos - 0.9, width=0.1)))
    return FormalTransformer(
        make_embedding(task.vocab, num, {task.bos: is_bos}, ones, rows.width),
        [make_positions(blocks, vectors, num_ids, rows.width)],
        [Plan(heads, [layer], writes)],
        make_read_out(task.vocab, digits, task.eos, is_eos, rows.width),
    )


def choose_digit(layer: ReluLayer, total: Form, digits: list[Form]) -> list[tuple[Form, Form]]:
    """Eight hidden units for each digit k: 1 if `total` is a little above k or k + 10, else 0."""
    writes: list[tuple[Form, Form]] = []
    for digit, row in enumerate(digits):
        up, down, up_again, down_again = (
            layer.ramp(total - number) for number in (digit, digit + 1, digit + 10, digit + 11)
        )
        writes.append((row, up - down + up_again - down_again))
    return writes

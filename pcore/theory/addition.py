"""Addition as weights: two numbers (Theorem 5.1), and many with a scratchpad (ours).

**Two numbers**: one layer with two heads, operands of up to 2^P - 2 digits.

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

**Many numbers with a scratchpad**: one layer with four heads.
The follow-up (Cho et al., arXiv 2410.15787) proves that one layer does this for exponentially many
digits and operands; the construction here is ours, in the manner of Theorem 5.1. The format is that
of `pcore.tasks.Addition(scratchpad=True)`: two levels of IDs, significance and operand, each with
vectors of P bits. The width is d = 19 + 4P; sums have up to 2^P - 2 digits, and there are up to
2^P - 2 operands.

In the response, step k is the running sum of k operands. While it is written, level 2 has the ID
before the present one on exactly the previous sum and operand k, so two heads find there what
Theorem 5.1 finds in the two operands: their digits of the next significance (PRE_SUM) and of the
present one (PRE_CARRY). Two more heads tell where a sum ends, by how much BOS is attended:

    column        $ 57+48+96 padded  =  0  0  0  >  7  5  0  >  5  0  1  >  1  0  2
    level 1                          1  2  3  4  1  2  3  4  1  2  3  4  1  2  3  4
    level 2                          1  1  1  1  2  2  2  2  3  3  3  3  4  4  4  4
    PRE_SUM                          0  0  0  0  7  5  0  0 15  9  0  0 11  9  1  0
    PRE_END     no digit of the next significance anywhere: 1, else at most 1/2
    PRE_LAST    no operand for another step:  1/2 at the digits of the last sum, 1/3 at the others
    next                             0  0  0  >  7  5  0  >  5  0  1  >  1  0  2  $
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


def hard_queries(length: int) -> list[str]:
    """Additions of that length with the longest chains of carries, and with none at all."""
    nines, ones = "9" * length, "1" * length
    halves = ("45" * length)[:length], ("54" * length)[:length]
    return [
        f"{nines}+1",
        f"{nines}+{nines}",
        f"{nines}+0",
        f"{'4' * length}+{'5' * length}",  # nines everywhere, nothing carried
        f"{'4' * (length - 1)}5+{'5' * length}",  # the same, and a carry through all of them
        f"{halves[0]}+{halves[1]}",
        f"{'5' * length}+{'5' * length}",
        f"{ones}+{'8' * length}",
        f"1{'0' * (length - 1)}+0",
    ]


def make_scratchpad(
    num_bits: int, *, scale: float | None = None, num_ids: int | None = None
) -> FormalTransformer:
    """The construction for sums and numbers of operands up to 2^P - 2, in float64; its width is
    19 + 4P. scale, num_ids: as of `make_addition`.
    """
    longest = 2**num_bits - 2
    rows, task = Rows(), Addition(scratchpad=True)
    num, is_bos, ones = (rows.one(name) for name in ("NUM", "IS_BOS", "FULL_ONES"))
    pre_sum, pre_carry = rows.one("PRE_SUM"), rows.one("PRE_CARRY")
    pre_end, pre_last = rows.one("PRE_END"), rows.one("PRE_LAST")
    digits, is_end, is_eos = rows.block("SUM", 10), rows.one("IS_END"), rows.one("IS_EOS")
    here, following = rows.block("POS", num_bits), rows.block("NEXT_POS", num_bits)
    step, before = rows.block("STEP", num_bits), rows.block("STEP_BEFORE", num_bits)

    look = Lookup(scale or default_scale((2 * longest + 1) * (longest + 1) + 2), ones, is_bos)
    key = [*here, *step]
    heads = [
        look.by_position([*following, *before], key, (pre_sum, 3 * num)),
        look.by_position([*here, *before], key, (pre_carry, 3 * num)),
        look.by_position(following, here, (pre_end, is_bos)),
        look.by_position(key, key, (pre_last, is_bos)),
    ]
    layer = ReluLayer()
    writes = choose_digit(layer, pre_sum + (pre_carry - num) / 10 + 0.21, digits)
    writes.append((is_end, layer.ramp(pre_end - 0.9, width=0.1)))
    writes.append((is_eos, layer.ramp(pre_end + pre_last - 1.45, width=0.1)))
    read_out = make_read_out(task.vocab, digits, task.eos, is_eos, rows.width)
    read_out[task.vocab.index[">"], is_end.wire] = 50
    return FormalTransformer(
        make_embedding(task.vocab, num, {task.bos: is_bos}, ones, rows.width),
        [
            make_positions({0: here, 1: following}, sign_vectors(num_bits), num_ids, rows.width),
            make_positions({0: step, -1: before}, sign_vectors(num_bits), num_ids, rows.width),
        ],
        [Plan(heads, [layer], writes)],
        read_out,
    )


def hard_scratchpads(length: int, num_operands: int) -> list[str]:
    """Additions of that length with the longest chains of carries, and with zeros."""
    nines, rest = "9" * length, num_operands - 1
    return [
        "+".join([nines] * num_operands),
        "+".join([nines, *["1"] * rest]),
        "+".join([*["1"] * rest, nines]),
        "+".join([nines, *["0"] * rest]),
        "+".join([f"1{'0' * (length - 1)}"] * num_operands),
        "+".join(["4" * length, "5" * length, *["1"] * (rest - 1)]),
        "+".join(["5" * length] * num_operands),
    ]

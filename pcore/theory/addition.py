"""Theorem 5.1 as weights: one layer with two heads adds numbers of up to 2^P - 2 digits.

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
turned by one, which the query matrix of head 1 does.
"""

import math
from collections.abc import Callable, Sequence

from torch import Tensor

from pcore.tasks.addition import Addition
from pcore.theory.formal import FormalTransformer
from pcore.theory.forms import (
    BlockPlan,
    FeedForwardPlan,
    Form,
    HeadPlan,
    ReluLayer,
    Rows,
)
from pcore.theory.positions import (
    Lookup,
    default_scale,
    make_embedding,
    make_positions,
    make_read_out,
    ring_vectors,
    turn_rings,
)

NUM_ROWS = 17  # beside the position blocks
# From the rows so far: those of v_k, those of v_(k+1) and the table of positions.
Positions = tuple[list[Form], list[Form], Tensor]


def max_digits(num_bits: int) -> int:
    """The longest operands of the theorem: IDs 1 ... l + 2 need vectors of their own."""
    return 2**num_bits - 2


def make_addition(
    num_bits: int, *, scale: float | None = None, num_ids: int | None = None
) -> FormalTransformer:
    """The construction for operands of up to `max_digits(num_bits)` digits, in float64.

    scale: M of the proof; None = `default_scale`. num_ids: position IDs that the table has; None =
    2^P, those of the theorem.
    """
    scale = scale or default_scale(3 * max_digits(num_bits) + 4)

    def place(rows: Rows) -> Positions:
        here, following = rows.block("POS", num_bits), rows.block("NEXT_POS", num_bits)
        return here, following, make_positions({0: here, 1: following}, num_ids, rows.width)

    return _make(place, scale, num_bits)


def max_digits_with_rings(moduli: Sequence[int]) -> int:
    """The longest operands that these rings add: IDs 1 ... l + 2 need vectors of their own."""
    return math.prod(moduli) - 2


def make_addition_with_rings(
    moduli: Sequence[int], *, scale: float | None = None, num_ids: int | None = None
) -> FormalTransformer:
    """The same with residue rings of pairwise coprime moduli, for operands of up to
    `max_digits_with_rings(moduli)` digits, in float64.

    IDs that agree in all rings but one score M less than equal ones, wherever they lie: twice the
    scale of the signs makes up for it, and no confusion begins before the IDs repeat.
    """
    scale = scale or default_scale(3 * max_digits_with_rings(moduli) + 4, lead=1)

    def place(rows: Rows) -> Positions:
        here = rows.block("RING", sum(moduli))
        table = make_positions({0: here}, num_ids, rows.width, ring_vectors(moduli))
        return here, turn_rings(here, moduli), table

    return _make(place, scale, len(moduli))


def _make(place: Callable[[Rows], Positions], scale: float, match: int) -> FormalTransformer:
    """match: the inner product of equal position vectors."""
    rows = Rows()
    num, is_bos, ones = (rows.one(name) for name in ("NUM", "IS_BOS", "FULL_ONES"))
    pre_sum, pre_carry, pre_eos = (rows.one(n) for n in ("PRE_SUM", "PRE_CARRY", "PRE_EOS"))
    digits, is_eos = rows.block("SUM", 10), rows.one("IS_EOS")
    assert rows.width == NUM_ROWS
    here, following, positions = place(rows)

    look = Lookup(scale, ones, is_bos, match)
    heads = [
        HeadPlan(**look.by_position(following, here), writes=[(pre_sum, 3 * num)]),
        HeadPlan(
            **look.by_position(here, here), writes=[(pre_carry, 4 * num), (pre_eos, 2 * is_bos)]
        ),
    ]
    total = pre_sum + (pre_carry - 2 * num) / 10 + 0.21
    network = choose_digit(total, digits)  # 80 hidden units, and two for EOS
    network.writes.append((is_eos, network.layers[0].ramp(pre_eos - 0.9, width=0.1)))
    task = Addition()
    return FormalTransformer(
        make_embedding(task.vocab, num, {task.bos: is_bos}, ones, rows.width),
        [positions],
        [BlockPlan(heads=heads, feed_forward=network)],
        make_read_out(task.vocab, digits, task.eos, is_eos, rows.width),
    )


def choose_digit(total: Form, digits: list[Form]) -> FeedForwardPlan:
    """Eight hidden units for each digit k: 1 if `total` is a little above k or k + 10, else 0."""
    layer = ReluLayer()
    writes: list[tuple[Form, Form]] = []
    for digit, row in enumerate(digits):
        up, down, up_again, down_again = (
            layer.ramp(total - number) for number in (digit, digit + 1, digit + 10, digit + 11)
        )
        writes.append((row, up - down + up_again - down_again))
    return FeedForwardPlan(layers=[layer], writes=writes)


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

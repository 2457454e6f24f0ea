"""The theorem on N x 2 multiplication as weights: two layers with 3 and 7 heads.

Source: Cho et al., Position Coupling (arXiv 2405.20671), theorem on N x 2 multiplication and its
proof. The width is d = 34 + 6P, so the longest first operand has 2^floor((d-34)/6) - 3 digits. The
format is that of `pcore.tasks.Multiplication` with its defaults, position IDs those of evaluation.

Layer 1 marks the two digits of B and what stands from `*` on, and keeps a copy of the position
vectors on A alone. Layer 2 fetches B's digits and, at the response digit of significance i, A's
digits of significance i + 1, i, i - 1, i - 2, i - 3 (0 where there is none, as only BOS is attended
then). The rest is arithmetic on small integers, a ReLU network of four hidden layers: products of
digits, their decimal digits, the carry, the next digit.

    column        $ 7 5 9 5 * 7 9   =  5  0  0  0  0  6
    ID            . 5 4 3 2 1 3 2   1  2  3  4  5  6  7
    PRE_PROD                        5 10  9  9 19  4  0    column i + 1 without what is carried in
    PRE_CARRY                       0  5 10  9  9 19  4    the same of column i, the one answered
    next                            5  0  0  0  0  6  $

End flags. Published: two heads say "no digit of A here", and their conjunction marks the last
response digit, i = N + 1. As we read it these are the heads of i - 1 and of i + 1; with one digit
in A they also agree at i = 0, so an A of one digit ends after its first response digit. Mended: "no
digit at i - 1, but one at i - 2" is true at i = N + 1 alone, for every N >= 1; same heads and rows.

The head of significance i - 3 is the published one but not needed: it decides the hundreds of the
fourth column, 0 or 1, which PRE_CARRY gets; without them the differences that tell the carry are
-3 ... 0, 7 ... 10 and 17 ... 20, still apart (a test leaves the head out).
"""

from typing import Literal, TypeAlias

from pcore.tasks.multiplication import Multiplication
from pcore.theory.formal import (
    Form,
    FormalTransformer,
    Head,
    Lookup,
    Plan,
    ReluLayer,
    Rows,
    default_scale,
    make_embedding,
    make_positions,
    make_read_out,
    sign_vectors,
)

SHIFTS = (1, 0, -1, -2, -3)  # significance of A's digit, seen from the response digit
Network: TypeAlias = tuple[list[ReluLayer], list[tuple[Form, Form]]]  # the end of a `Plan`
LARGEST_COLUMN = 162  # 9 * 9 + 9 * 9


def max_digits(num_bits: int) -> int:
    """The longest first operand: IDs 1 ... N + 3 need vectors of their own."""
    return 2**num_bits - 3


class _Rows(Rows):
    """The named rows of the residual stream."""

    def __init__(self, num_bits: int):
        super().__init__()
        self.num, self.is_bos, self.ones = (self.one(n) for n in ("NUM", "IS_BOS", "FULL_ONES"))
        self.is_mul, self.is_equal = self.one("IS_MUL"), self.one("IS_EQUAL")
        self.is_b_ones, self.is_b_tens = self.one("IS_OP2_ONE"), self.one("IS_OP2_TEN")
        self.from_mul = self.one("FROM_MUL")
        self.b_ones, self.b_tens = self.one("OP2_ONE"), self.one("OP2_TEN")
        self.a = dict(zip(SHIFTS, self.block("OP1_SHIFT", 5), strict=True))
        self.columns = self.block("RESULT", 4)
        self.pre_prod, self.pre_carry = self.one("PRE_PROD"), self.one("PRE_CARRY")
        self.flags = self.block("PRE_EOS", 2)
        self.digits, self.is_eos = self.block("PROD", 10), self.one("IS_EOS")
        self.positions = {s: self.block(f"POS{s:+d}", num_bits) for s in SHIFTS}
        self.on_a = self.block("POS_OP1", num_bits)


def make_multiplication(
    num_bits: int,
    *,
    num_ids: int | None = None,
    end_flags: Literal["mended", "published"] = "mended",
) -> FormalTransformer:
    """The construction for first operands of up to `max_digits(num_bits)` digits, in float64.

    num_ids: position IDs that the table has; None = 2^P, those of the theorem.
    """
    rows = _Rows(num_bits)
    look = Lookup(default_scale(2 * max_digits(num_bits) + 7), rows.ones, rows.is_bos)
    task = Multiplication()
    marks = {task.bos: rows.is_bos, "*": rows.is_mul, "=": rows.is_equal}
    blocks = [
        Plan(_marking_heads(rows, look), *_copy_positions(rows)),
        Plan(_fetching_heads(rows, look, end_flags), *_arithmetic(rows)),
    ]
    return FormalTransformer(
        make_embedding(task.vocab, rows.num, marks, rows.ones, rows.width),
        [make_positions(rows.positions, sign_vectors(num_bits), num_ids, rows.width)],
        blocks,
        make_read_out(task.vocab, rows.digits, task.eos, rows.is_eos, rows.width),
    )


def _marking_heads(rows: _Rows, look: Lookup) -> list[Head]:
    """B's ones digit has `*` alone one ID before it, its tens digit two IDs before it.

    For response digits `=` is there too and cancels `*`; A stands before both.
    """
    beside = 2 * (rows.is_mul - rows.is_equal)
    here = rows.positions[0]
    return [
        look.by_position(rows.positions[-1], here, (rows.is_b_ones, beside)),
        look.by_position(rows.positions[-2], here, (rows.is_b_tens, beside)),
        look.by_mark(rows.is_mul, (rows.from_mul, 2 * rows.is_mul)),
    ]


def _copy_positions(rows: _Rows) -> Network:
    """Position vectors, 0 from `*` on: for a sign s and a mark m, s unless m = 1."""
    layer = ReluLayer()
    writes: list[tuple[Form, Form]] = []
    for sign, copy in zip(rows.positions[0], rows.on_a, strict=True):
        kept = layer.relu(sign - rows.from_mul) - layer.relu(-sign - rows.from_mul)
        writes.append((copy, kept))
    return [layer], writes


def _fetching_heads(rows: _Rows, look: Lookup, end_flags: str) -> list[Head]:
    """Half of the attention is on BOS and half on the digit, so values are doubled."""
    absent, present = rows.is_bos, 2 * (rows.ones - rows.is_bos)
    flags = {-1: absent, -2: present} if end_flags == "mended" else {-1: absent, 1: absent}
    flag_rows = dict(zip(flags, rows.flags, strict=True))
    heads = [
        look.by_mark(rows.is_b_ones, (rows.b_ones, 2 * rows.num)),
        look.by_mark(rows.is_b_tens, (rows.b_tens, 2 * rows.num)),
    ]
    for shift, row in rows.a.items():
        writes = [(row, 2 * rows.num)]
        if shift in flags:
            writes.append((flag_rows[shift], flags[shift]))
        heads.append(look.by_position(rows.positions[shift], rows.on_a, *writes))
    return heads


def _arithmetic(rows: _Rows) -> Network:
    """Products of digits, their decimal digits, the carry, the next digit: four hidden layers.

    Values that are never negative pass a layer by `relu`.
    """
    first, second, third, fourth = (ReluLayer() for _ in range(4))
    columns = [
        first.product(rows.a[shift], rows.b_ones) + first.product(rows.a[shift - 1], rows.b_tens)
        for shift in SHIFTS[:-1]
    ]
    num, *flags = (first.relu(row) for row in (rows.num, *rows.flags))

    digits = [_decimal_digits(second, column) for column in columns]
    pre_prod = digits[0][0] + digits[1][1] + digits[2][2]
    pre_carry = digits[1][0] + digits[2][1] + digits[3][2]
    columns = [second.relu(column) for column in columns]
    num, *flags = (second.relu(form) for form in (num, *flags))

    carried = pre_carry - num  # -2 ... 0, 8 ... 10 or 18 ... 20
    carry = third.at_least(carried, 5) + third.at_least(carried, 15)
    shown = [third.relu(form) for form in (*columns, pre_prod, pre_carry)]
    pre_prod, flags = shown[4], [third.relu(flag) for flag in flags]

    total = pre_prod + carry  # 0 ... 21
    writes = [
        (row, sum((fourth.equal(total, digit + tens) for tens in (0, 10, 20)), Form()))
        for digit, row in enumerate(rows.digits)
    ]
    writes.append((rows.is_eos, fourth.ramp(flags[0] + flags[1] - 1.9, width=0.2)))
    targets = (*rows.columns, rows.pre_prod, rows.pre_carry)
    writes += [(row, fourth.relu(form)) for row, form in zip(targets, shown, strict=True)]
    return [first, second, third, fourth], writes


def _decimal_digits(layer: ReluLayer, column: Form) -> tuple[Form, Form, Form]:
    """(ones, tens, hundreds) of an integer in 0 ... 162; ones are those of the layer's output."""
    whole_tens = [layer.at_least(column, n) for n in range(10, LARGEST_COLUMN + 1, 10)]
    hundreds = whole_tens[9]
    num_tens = sum(whole_tens, Form())
    return layer.relu(column) - 10 * num_tens, num_tens - 10 * hundreds, hundreds

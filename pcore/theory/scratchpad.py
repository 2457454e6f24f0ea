"""Addition of many operands with a scratchpad as weights: one layer with four heads.

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

from pcore.tasks.addition import Addition
from pcore.theory.addition import choose_digit
from pcore.theory.formal import FormalTransformer
from pcore.theory.forms import BlockPlan, HeadPlan, Rows
from pcore.theory.positions import (
    Lookup,
    default_scale,
    make_embedding,
    make_positions,
    make_read_out,
)

NUM_ROWS = 19  # beside the four position blocks


def make_scratchpad(
    num_bits: int, *, scale: float | None = None, num_ids: int | None = None
) -> FormalTransformer:
    """The construction for sums and numbers of operands up to 2^P - 2, in float64.

    scale: M of the proof; None = `default_scale`. num_ids: position IDs that each table has; None =
    2^P.
    """
    longest = 2**num_bits - 2
    scale = scale or default_scale((2 * longest + 1) * (longest + 1) + 2)
    rows = Rows()
    num, is_bos, ones = (rows.one(name) for name in ("NUM", "IS_BOS", "FULL_ONES"))
    pre_sum, pre_carry = rows.one("PRE_SUM"), rows.one("PRE_CARRY")
    pre_end, pre_last = rows.one("PRE_END"), rows.one("PRE_LAST")
    digits, is_end, is_eos = rows.block("SUM", 10), rows.one("IS_END"), rows.one("IS_EOS")
    assert rows.width == NUM_ROWS
    here, following = rows.block("POS", num_bits), rows.block("NEXT_POS", num_bits)
    step, before = rows.block("STEP", num_bits), rows.block("STEP_BEFORE", num_bits)

    look = Lookup(scale, ones, is_bos)
    key = [*here, *step]
    heads = [
        HeadPlan(**look.by_position([*following, *before], key), writes=[(pre_sum, 3 * num)]),
        HeadPlan(**look.by_position([*here, *before], key), writes=[(pre_carry, 3 * num)]),
        HeadPlan(**look.by_position(following, here), writes=[(pre_end, is_bos)]),
        HeadPlan(**look.by_position(key, key), writes=[(pre_last, is_bos)]),
    ]
    total = pre_sum + (pre_carry - num) / 10 + 0.21
    network = choose_digit(total, digits)
    network.writes.append((is_end, network.layers[0].ramp(pre_end - 0.9, width=0.1)))
    network.writes.append((is_eos, network.layers[0].ramp(pre_end + pre_last - 1.45, width=0.1)))
    task = Addition(scratchpad=True)
    read_out = make_read_out(task.vocab, digits, task.eos, is_eos, rows.width)
    read_out[task.vocab.index[">"], is_end.wire] = 50
    return FormalTransformer(
        make_embedding(task.vocab, num, {task.bos: is_bos}, ones, rows.width),
        [
            make_positions({0: here, 1: following}, num_ids, rows.width),
            make_positions({0: step, -1: before}, num_ids, rows.width),
        ],
        [BlockPlan(heads=heads, feed_forward=network)],
        read_out,
    )


def hard_queries(length: int, num_operands: int) -> list[str]:
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

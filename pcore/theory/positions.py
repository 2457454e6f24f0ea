"""What the constructions share: sign vectors as position vectors, heads that look up by ID.

Source: Cho et al., Position Coupling (arXiv 2405.20671), proofs of Theorem 5.1 and of the theorem
on multiplication. With P = `num_bits`, the vector v_k of ID k = 1 ... 2^P has entries -1 and 1: the
binary digits of k - 1. Two equal ones have the inner product P, two different ones at most P - 2.
The papers' IDs fall with significance and ours rise, so "the next ID" changes sides: their query
v_p looks for keys of v_(p+1), our query v_(p+1) for keys of v_p.
"""

import math
from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from pcore.theory.forms import Form
from pcore.vocab import DIGITS, Vocab


def sign_vectors(num_bits: int) -> Float[Tensor, "I P"]:
    """v_1 ... v_I for I = 2^P: entry i of v_k is (-1)^(bit i of k - 1)."""
    numbers = torch.arange(2**num_bits).unsqueeze(1)
    bits = (numbers >> torch.arange(num_bits)) & 1
    return 1.0 - 2.0 * bits.double()


def make_positions(
    blocks: Mapping[int, list[Form]], num_ids: int | None, d_model: int
) -> Float[Tensor, "I D"]:
    """Position vectors of the IDs 0 ... num_ids (None = 2^P, all that differ); row 0 is zero.

    blocks: by shift s, the rows that hold v_(k+s) in the vector of ID k. Numbers wrap around at
    2^P, so IDs beyond 2^P repeat the vectors of the first ones.
    """
    num_rows = len(next(iter(blocks.values())))
    num_ids = num_ids or 1 << num_rows
    table = torch.zeros(num_ids + 1, d_model, dtype=torch.float64)
    ids = torch.arange(1, num_ids + 1)
    for shift, rows in blocks.items():
        signs = sign_vectors(len(rows))
        table[1:, [row.wire for row in rows]] = signs[(ids - 1 + shift) % len(signs)]
    return table


def make_embedding(
    vocab: Vocab, digit_row: Form, marks: Mapping[str, Form], ones: Form, d_model: int
) -> Float[Tensor, "V D"]:
    """Token vectors: a digit's value, a 1 in the row that marks a symbol, a 1 everywhere."""
    table = torch.zeros(len(vocab), d_model, dtype=torch.float64)
    table[:, ones.wire] = 1
    for value, digit in enumerate(DIGITS):
        table[vocab.index[digit], digit_row.wire] = value
    for symbol, row in marks.items():
        table[vocab.index[symbol], row.wire] = 1
    return table


def make_read_out(
    vocab: Vocab, digit_rows: list[Form], eos_symbol: str, eos_row: Form, d_model: int
) -> Float[Tensor, "V D"]:
    """A digit's logit is its row; that of EOS is 100 times its row; of all others 0."""
    table = torch.zeros(len(vocab), d_model, dtype=torch.float64)
    for digit, row in zip(DIGITS, digit_rows, strict=True):
        table[vocab.index[digit], row.wire] = 1
    table[vocab.index[eos_symbol], eos_row.wire] = 100
    return table


def least_scale(num_tokens: int) -> float:
    """M = ln(T)/2 + 3, from which on what T keys leak stays below 0.1 in the sums of Theorem 5.1.

    Not enough for multiplication, whose proof takes softmax for exact and whose products magnify.
    """
    return math.log(num_tokens) / 2 + 3


def default_scale(num_tokens: int) -> float:
    """The smallest power of four that is at least `least_scale`: 16 for all practical lengths.

    Its root is a power of two, so all scores are integers and exact in any floating-point format;
    equal ones stay equal, and what leaks is e^-32 per key.
    """
    return 4.0 ** math.ceil(math.log(least_scale(num_tokens), 4))


class Lookup:
    """Scores of heads that attend to BOS and to the keys asked for, equally, and to nothing else.

    Those score M P for a block of P rows, all others at most M (P - 2).
    """

    def __init__(self, scale: float, ones: Form, is_bos: Form):
        self.root, self.ones, self.is_bos = math.sqrt(scale), ones, is_bos

    def by_position(self, query: list[Form], key: list[Form]) -> dict[str, list[Form]]:
        """Keys whose position vector equals that of the query; both are blocks of rows."""
        return {
            "query": [*(row * self.root for row in query), self.ones * (self.root * len(query))],
            "key": [*(row * self.root for row in key), self.is_bos * self.root],
        }

    def by_mark(self, mark: Form) -> dict[str, list[Form]]:
        """Keys with a 1 in a row; they score 2 M, all others 0."""
        return {"query": [self.ones * (2 * self.root)], "key": [(self.is_bos + mark) * self.root]}

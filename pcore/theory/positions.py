"""Shared by all constructions: position vectors of signs or rings, and heads that look up by ID.

Source: Cho et al., Position Coupling (arXiv 2405.20671), proofs of Theorem 5.1 and of the theorem
on multiplication. With P = `num_bits`, the vector v_k of ID k = 1 ... 2^P has entries -1 and 1: the
binary digits of k - 1. Two equal ones have the inner product P, two different ones at most P - 2.
The papers' IDs fall with significance and ours rise, so "the next ID" changes sides: their query
v_p looks for keys of v_(p+1), our query v_(p+1) for keys of v_p.
"""

import math
from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from pcore.theory.forms import Form
from pcore.vocab import DIGITS, Vocab


def sign_vectors(num_bits: int) -> Float[Tensor, "I P"]:
    """v_1 ... v_I for I = 2^P: entry i of v_k is (-1)^(bit i of k - 1)."""
    numbers = torch.arange(2**num_bits).unsqueeze(1)
    bits = (numbers >> torch.arange(num_bits)) & 1
    return 1.0 - 2.0 * bits.double()


def ring_vectors(moduli: Sequence[int]) -> Float[Tensor, "I S"]:
    """v_1 ... v_I for I = product of the moduli, S their sum: in each ring of m entries a 1 at
    k - 1 modulo m. The inner product of two counts the rings in which they agree: all of them only
    for equal IDs, if the moduli are pairwise coprime (Chinese remainder theorem).
    """
    numbers = torch.arange(math.prod(moduli))
    return torch.cat([F.one_hot(numbers % m, m) for m in moduli], dim=1).double()


def turn_rings(rows: list[Form], moduli: Sequence[int]) -> list[Form]:
    """The rows of v_(k+1) where `rows` hold v_k: each ring turned by one, a linear map."""
    turned: list[Form] = []
    for modulus in moduli:
        ring = rows[len(turned) : len(turned) + modulus]
        turned += [ring[-1], *ring[:-1]]
    return turned


def make_positions(
    blocks: Mapping[int, list[Form]],
    num_ids: int | None,
    d_model: int,
    vectors: Float[Tensor, "I S"] | None = None,
) -> Float[Tensor, "J D"]:
    """Position vectors of the IDs 0 ... num_ids (None = all that differ); row 0 is zero.

    blocks: by shift s, the rows that hold v_(k+s) in the vector of ID k. vectors: v_1 ... v_I; None
    = the sign vectors of P bits, P being the rows of a block. Numbers wrap around at I, so IDs
    beyond I repeat the vectors of the first ones.
    """
    vectors = sign_vectors(len(next(iter(blocks.values())))) if vectors is None else vectors
    num_ids = num_ids or len(vectors)
    table = torch.zeros(num_ids + 1, d_model, dtype=torch.float64)
    ids = torch.arange(1, num_ids + 1)
    for shift, rows in blocks.items():
        table[1:, [row.wire for row in rows]] = vectors[(ids - 1 + shift) % len(vectors)]
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


def default_scale(num_tokens: int, lead: int = 2) -> float:
    """The smallest power of four that is at least `least_scale`: 16 for all practical lengths.

    Its root is a power of two, so all scores are integers and exact in any floating-point format;
    equal ones stay equal, and what leaks is e^-32 per key. lead: by how much the inner product of
    equal position vectors exceeds that of others; 2 for signs, and M grows as it falls.
    """
    return 4.0 ** math.ceil(math.log(least_scale(num_tokens) * 2 / lead, 4))


class Lookup:
    """Scores of heads that attend to BOS and to the keys asked for, equally, and to nothing else.

    match: the inner product of equal position vectors; None = that of signs, P for a block of P
    rows. Those score M times it, all others M times 2 less (signs) or 1 less (rings) at most.
    """

    def __init__(self, scale: float, ones: Form, is_bos: Form, match: int | None = None):
        self.root, self.ones, self.is_bos = math.sqrt(scale), ones, is_bos
        self.match = match

    def by_position(self, query: list[Form], key: list[Form]) -> dict[str, list[Form]]:
        """Keys whose position vector equals that of the query; both are blocks of rows."""
        match = self.match or len(query)
        return {
            "query": [*(row * self.root for row in query), self.ones * (self.root * match)],
            "key": [*(row * self.root for row in key), self.is_bos * self.root],
        }

    def by_mark(self, mark: Form) -> dict[str, list[Form]]:
        """Keys with a 1 in a row; they score 2 M, all others 0."""
        return {"query": [self.ones * (2 * self.root)], "key": [(self.is_bos + mark) * self.root]}

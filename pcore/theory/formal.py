"""The formal Transformer of the papers' theorems, and what its hand-written weights are made of.

Unscaled scores, causal softmax, no norms, ReLU feed-forward networks with biases, an untied
read-out, position vectors added to the embedding (the vector of ID 0 is zero). Unlike
`pcore.model`, a feed-forward network may have several hidden layers: the theorem on
multiplication lets it be any network.
Source: Cho et al., Position Coupling (arXiv 2405.20671), appendix on the formal construction.

A construction names the rows of its residual stream, says in formulas what each head compares and
copies and what each hidden unit computes, and gets the matrices:

    rows = Rows()
    num, sign = rows.one("NUM"), rows.block("SIGN", 3)
    weight, bias = to_matrix([2 * num - 1, *sign], rows.width)

With P = `num_bits`, the vector v_k of ID k = 1 ... 2^P has entries -1 and 1: the binary digits of
k - 1. Two equal ones have the inner product P, two different ones at most P - 2. The papers' IDs
fall with significance and ours rise, so "the next ID" changes sides: their query v_p looks for keys
of v_(p+1), our query v_(p+1) for keys of v_p.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from pcore.mixing import take
from pcore.model import LanguageModel
from pcore.vocab import DIGITS, Vocab


@dataclass(frozen=True, slots=True)
class Form:
    """A sum of coefficient * wire, plus a constant. A wire is a row or a hidden unit by number."""

    terms: Mapping[int, float] = field(default_factory=dict)
    constant: float = 0.0

    def __add__(self, other: "Form | float") -> "Form":
        if not isinstance(other, Form):
            return Form(self.terms, self.constant + other)
        terms = dict(self.terms)
        for wire, coefficient in other.terms.items():
            terms[wire] = terms.get(wire, 0.0) + coefficient
        return Form(terms, self.constant + other.constant)

    def __mul__(self, factor: float) -> "Form":
        return Form({w: c * factor for w, c in self.terms.items()}, self.constant * factor)

    def __neg__(self) -> "Form":
        return self * -1.0

    def __sub__(self, other: "Form | float") -> "Form":
        return self + -other

    def __truediv__(self, divisor: float) -> "Form":
        return self * (1 / divisor)

    __radd__, __rmul__ = __add__, __mul__  # sum() begins with the number 0

    @property
    def wire(self) -> int:
        """The number of the wire, if the form is nothing but one."""
        assert list(self.terms.values()) == [1.0], self
        assert self.constant == 0, self
        return next(iter(self.terms))


class Rows:
    """The rows of a residual stream, in the order in which they are named."""

    def __init__(self):
        self.names: list[str] = []

    @property
    def width(self) -> int:
        """Rows so far."""
        return len(self.names)

    def one(self, name: str) -> Form:
        """A new row."""
        assert name not in self.names, name
        self.names.append(name)
        return Form({self.width - 1: 1.0})

    def block(self, name: str, count: int) -> list[Form]:
        """`count` new rows NAME_0, NAME_1, ..."""
        return [self.one(f"{name}_{i}") for i in range(count)]


class ReluLayer:
    """One hidden layer: forms over the layer before go in, forms over its own units come out."""

    def __init__(self):
        self.units: list[Form] = []

    def relu(self, form: Form) -> Form:
        """A unit max(form, 0). Also how a value >= 0 gets past the layer."""
        self.units.append(form)
        return Form({len(self.units) - 1: 1.0})

    def ramp(self, form: Form, width: float = 0.5) -> Form:
        """0 up to -width, 1 from 0 on, straight in between: two units."""
        return (self.relu(form + width) - self.relu(form)) / width

    def at_least(self, form: Form, threshold: int) -> Form:
        """For an integer: 1 if it is at least the threshold, else 0. Forgives errors to 1/4."""
        return self.ramp(form - threshold + 0.25)

    def equal(self, form: Form, value: int) -> Form:
        """For an integer: 1 if it is `value`, else 0. Forgives errors up to 1/4."""
        return self.at_least(form, value) - self.at_least(form, value + 1)

    def square(self, form: Form, largest: int) -> Form:
        """The square of an integer in 0 ... largest (0 below): n + 2 (n-1) + 2 (n-2) + ..."""
        parts = [2 * self.relu(form - n) for n in range(1, largest)]
        return sum(parts, self.relu(form))

    def product(self, a: Form, b: Form, largest: int = 9) -> Form:
        """a * b for integers in 0 ... largest: ((a+b)^2 - (a-b)^2) / 4."""
        difference = a - b
        squares = self.square(a + b, 2 * largest), self.square(difference, largest)
        return (squares[0] - squares[1] - self.square(-difference, largest)) / 4


class Head(NamedTuple):
    """One attention head: the score is the inner product of `query` and `key`; `writes`: rows, and
    forms of the attended token whose mean each gets.
    """

    query: list[Form]
    key: list[Form]
    writes: list[tuple[Form, Form]]


class Plan(NamedTuple):
    """One layer of a Transformer: heads side by side, then a network of hidden layers; `writes`:
    rows, and forms over the last hidden layer that are added to them.
    """

    heads: list[Head]
    hidden: list[ReluLayer]
    writes: list[tuple[Form, Form]]


def to_matrix(
    forms: Iterable[Form], width: int
) -> tuple[Float[Tensor, "R W"], Float[Tensor, " R"]]:
    """(weight, bias) that compute the forms from `width` wires."""
    forms = list(forms)
    weight = torch.zeros(len(forms), width, dtype=torch.float64)
    for row, form in enumerate(forms):
        for wire, coefficient in form.terms.items():
            weight[row, wire] = coefficient
    return weight, torch.tensor([form.constant for form in forms], dtype=torch.float64)


# Position vectors ---------------------------------------------------------------------------------


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
    vectors: Float[Tensor, "I S"],
    num_ids: int | None,
    d_model: int,
) -> Float[Tensor, "J D"]:
    """Position vectors of the IDs 0 ... num_ids (None = I); row 0 is zero.

    blocks: by shift s, the rows that hold v_(k+s) in the vector of ID k. vectors: v_1 ... v_I.
    Numbers wrap around at I, so IDs beyond repeat the vectors of the first ones.
    """
    num_ids = num_ids or len(vectors)
    table = torch.zeros(num_ids + 1, d_model, dtype=torch.float64)
    ids = torch.arange(1, num_ids + 1)
    for shift, rows in blocks.items():
        table[1:, [row.wire for row in rows]] = vectors[(ids - 1 + shift) % len(vectors)]
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
    """Heads that attend to BOS and to the keys asked for, equally, and to nothing else.

    match: the inner product of equal position vectors; 0 = that of signs, P for a block of P rows.
    Those score M times it, all others M times 2 less (signs) or 1 less (rings) at most. writes: as
    of `Head`.
    """

    def __init__(self, scale: float, ones: Form, is_bos: Form, match: int = 0):
        self.root, self.ones, self.is_bos = math.sqrt(scale), ones, is_bos
        self.match = match

    def by_position(self, query: list[Form], key: list[Form], *writes: tuple[Form, Form]) -> Head:
        """Keys whose position vector equals that of the query; both are blocks of rows."""
        match = self.match or len(query)
        return Head(
            [*(row * self.root for row in query), self.ones * (self.root * match)],
            [*(row * self.root for row in key), self.is_bos * self.root],
            list(writes),
        )

    def by_mark(self, mark: Form, *writes: tuple[Form, Form]) -> Head:
        """Keys with a 1 in a row; they score 2 M, all others 0."""
        query, key = self.ones * (2 * self.root), (self.is_bos + mark) * self.root
        return Head([query], [key], list(writes))


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


# The model ----------------------------------------------------------------------------------------


class FormalTransformer(LanguageModel):
    """B examples, T tokens, D d_model, H heads, K d_head, V vocabulary, I position IDs with 0.

    positions: a table for each of the P levels of IDs.
    """

    def __init__(
        self,
        embedding: Float[Tensor, "V D"],
        positions: list[Float[Tensor, "I D"]],
        blocks: list[Plan],
        read_out: Float[Tensor, "V D"],
    ):
        super().__init__()
        self.embedding = nn.Parameter(embedding)
        self.positions = nn.ParameterList(positions)
        self.blocks = nn.ModuleList(Block(plan, embedding.shape[1]) for plan in blocks)
        self.unembedding = nn.Parameter(read_out)
        self.requires_grad_(False)

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        ids: Int[Tensor, "B T P"],
        places: Int[Tensor, "B R"] | None = None,
    ) -> Float[Tensor, "B R V"]:
        """Logits of the next token at `places` (indices into T, ascending; None = everywhere), in
        the precision of the weights, whatever autocast says.
        """
        with torch.autocast(tokens.device.type, enabled=False):
            return F.linear(self.residual(tokens, ids, places), self.unembedding)

    def residual(
        self,
        tokens: Int[Tensor, "B T"],
        ids: Int[Tensor, "B T P"],
        places: Int[Tensor, "B R"] | None = None,
    ) -> Float[Tensor, "B R D"]:
        """The residual stream at `places` after the last block: what the proofs call Z."""
        x = F.embedding(tokens, self.embedding)
        for level, table in enumerate(self.positions):
            x = x + F.embedding(ids[:, :, level], table)
        everywhere = torch.arange(tokens.shape[1], device=tokens.device).expand_as(tokens)
        for block in self.blocks:
            last = places is not None and block is self.blocks[-1]
            x = block(x, places if last else everywhere)
        return x


class Block(nn.Module):
    """x <- x + attention(x); x <- x + feed_forward(x), at the indices `at`."""

    def __init__(self, plan: Plan, d_model: int):
        super().__init__()
        self.attention = Attention(plan.heads, d_model)
        self.feed_forward = FeedForward(plan, d_model)

    def forward(self, x: Float[Tensor, "B T D"], at: Int[Tensor, "B R"]) -> Float[Tensor, "B R D"]:
        queries = take(x, at)
        queries = queries + self.attention(queries, x, at)
        return queries + self.feed_forward(queries)


class Attention(nn.Module):
    """Causal softmax attention. All heads have the d_head of the largest, filled with zeros."""

    def __init__(self, heads: list[Head], d_model: int):
        super().__init__()
        d_head = max(max(len(h.query), len(h.writes)) for h in heads)
        shape = (len(heads), d_head, d_model)
        q, k, v, o = (torch.zeros(shape, dtype=torch.float64) for _ in range(4))
        for i, head in enumerate(heads):
            assert len(head.query) == len(head.key)
            values = [form for _, form in head.writes]
            for weight, forms in ((q, head.query), (k, head.key), (v, values)):
                rows, biases = to_matrix(forms, d_model)
                assert not biases.any(), "attention has no biases"
                weight[i, : len(rows)] = rows
            for j, (row, _) in enumerate(head.writes):
                o[i, j, row.wire] = 1.0
        self.q, self.k, self.v, self.o = (nn.Parameter(w) for w in (q, k, v, o))

    def forward(
        self,
        queries: Float[Tensor, "B R D"],
        x: Float[Tensor, "B T D"],
        at: Int[Tensor, "B R"],
    ) -> Float[Tensor, "B R D"]:
        """What the heads add at the indices `at`; each query sees keys 0..at."""
        q = torch.einsum("brd,hkd->bhrk", queries, self.q)
        k = torch.einsum("btd,hkd->bhtk", x, self.k)
        v = torch.einsum("btd,hkd->bhtk", x, self.v)
        visible = torch.arange(k.shape[2], device=k.device) <= at[:, None, :, None]
        mixed = F.scaled_dot_product_attention(q, k, v, visible, scale=1.0)
        return torch.einsum("bhrk,hkd->brd", mixed, self.o)


class FeedForward(nn.Module):
    """Linear maps with a ReLU between one and the next."""

    def __init__(self, plan: Plan, d_model: int):
        super().__init__()
        width, maps = d_model, list[tuple[Tensor, Tensor]]()
        for layer in plan.hidden:
            maps.append(to_matrix(layer.units, width))
            width = len(layer.units)
        outputs = [Form()] * d_model
        for row, form in plan.writes:
            outputs[row.wire] = form
        maps.append(to_matrix(outputs, width))
        self.weights = nn.ParameterList(weight for weight, _ in maps)
        self.biases = nn.ParameterList(bias for _, bias in maps)

    def forward(self, x: Float[Tensor, "B R D"]) -> Float[Tensor, "B R D"]:
        for number, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = F.linear(x.relu() if number else x, weight, bias)
        return x

"""Hand-written weights: linear forms over named rows, and ReLU layers made of them.

A construction names the rows of its residual stream, says in formulas what each head compares and
copies and what each hidden unit computes, and gets the matrices:

    rows = Rows()
    num, sign = rows.one("NUM"), rows.block("SIGN", 3)
    weight, bias = to_matrix([2 * num - 1, *sign], rows.width)
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor


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


@dataclass(frozen=True, kw_only=True, slots=True)
class HeadPlan:
    """One attention head: the score is the inner product of `query` and `key`."""

    query: list[Form]
    key: list[Form]
    writes: list[tuple[Form, Form]]  # row, and form of the attended token whose mean it gets


@dataclass(frozen=True, kw_only=True, slots=True)
class FeedForwardPlan:
    """Hidden layers in their order."""

    layers: list[ReluLayer]
    writes: list[tuple[Form, Form]]  # row, and form over the last layer that is added to it


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockPlan:
    """One layer of a Transformer: heads side by side, then the feed-forward network."""

    heads: list[HeadPlan]
    feed_forward: FeedForwardPlan


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

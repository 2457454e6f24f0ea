"""A verdict on a published claim: one row of the report's first table."""

from dataclasses import dataclass
from typing import Literal

Verdict = Literal[
    "reproduced",
    "ordering holds",
    "not reproduced",
    "ordering does not hold",
    "not enough seeds",
    "undecided",
    "not run at paper scale",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class VerdictRow:
    """A published claim and our verdict on it."""

    claim: str
    published: str  # its value in words
    ours: str  # our numbers; "" if there are none
    scale: str  # of the rows that decided
    verdict: Verdict
    certainty: str  # how sure the published value is: paper, abstract, secondary, ours
    rule: str  # in words
    source: str = ""  # where the value was published
    sweep: str = ""  # whose section shows the rows
    n: int = 0  # runs of its smallest cell
    remark: str = ""

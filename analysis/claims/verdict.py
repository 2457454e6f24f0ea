"""A verdict on a published claim: one row of the report's first table."""

from dataclasses import dataclass
from typing import Literal

Verdict = Literal[
    "reproduced",  # the published number, at paper scale
    "exceeded",  # more than was published
    "holds",  # an ordering
    "not reproduced",
    "does not hold",
    "reversed",  # an ordering the other way round
    "not separated",  # an ordering: runs of both sides overlap
    "not enough seeds",
    "undecided",
    "not run",
    "not run at paper scale",  # where no smaller scale can decide
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
    n: int = 0  # runs of its smallest cell, at the lengths that were used
    least_p: float | None = None  # smallest two-sided p that so many runs can reach
    oracle: str = ""  # the verdict under the paper's selection of runs, with its numbers
    remark: str = ""
    is_ordering: bool = False  # decided by the ordering although there is a published number

    @property
    def beside(self) -> str:
        """What has to be known of our numbers: how sure so few runs can be, and the oracle's."""
        parts = ["an ordering (see the rule), not the published value"] if self.is_ordering else []
        if self.least_p is not None:
            parts.append(f"smallest p that {self.n} runs can reach: {self.least_p:.2g}")
        if self.oracle:
            parts.append(f"under oracle, as the paper selected its runs: {self.oracle}")
        return "; ".join(parts)

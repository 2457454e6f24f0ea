"""A claim: one published result, or one of ours, with the rules that judge it; and short forms of
frequent rules."""

from dataclasses import dataclass
from typing import Literal

from analysis.claims.combined import Every
from analysis.claims.evidence import Rule
from analysis.claims.orderings import beats
from analysis.claims.rules import collapses

Certainty = Literal["paper", "abstract", "secondary", "ours"]
PAPER, FOLLOW_UP = "arXiv 2405.20671", "arXiv 2410.15787"


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """One result, published or ours."""

    text: str
    published: str  # its value in words
    certainty: Certainty
    sweep: str  # that tests it
    source: str = PAPER
    number: Rule | None = None  # the published value; paper scale only
    ordering: Rule | None = None  # decides at laptop scale, at paper scale where no number does
    proven: Rule | None = None  # instead of both: holds at any scale or nowhere
    remark: str = ""

    @property
    def by_oracle(self) -> bool:
        """Whether the published curve is of runs selected by the loss at the test length."""
        return self.source == PAPER and self.certainty != "ours"

    @property
    def only_at_paper_scale(self) -> bool:
        """Whether no smaller scale can decide it."""
        return self.proven is None and self.ordering is None


def fails_at_once(*cells: str, most: int) -> Rule:
    """Each of the cells fits the trained lengths, and its L95 is at most `most`."""
    return Every(tuple(collapses(pattern, most) for pattern in cells))


def beats_each(better: str, *worse: str, times: float = 1.5) -> Rule:
    """The better cells beat each of the worse ones at `times` the trained length."""
    return Every(tuple(beats(better, pattern, times) for pattern in worse))

"""What a verdict on a published claim is: one line of the report's summary."""

from dataclasses import dataclass
from typing import Literal

Word = Literal[
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
    """A published claim and what we can say about it.

    published: its value in words; certainty: how sure that value is (paper, abstract, secondary);
    source: where it stands. ours: our numbers, "" if there are none; scale: of the rows that
    decided. rule: in words. sweep: whose section shows the rows; n: runs of its smallest cell.
    """

    claim: str
    published: str
    ours: str
    scale: str
    verdict: Word
    certainty: str
    rule: str
    source: str = ""
    sweep: str = ""
    n: int = 0
    remark: str = ""

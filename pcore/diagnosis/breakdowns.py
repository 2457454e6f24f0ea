"""Right and wrong cases split by a possible cause, and how much of the variance it explains."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from jaxtyping import Bool, Int
from torch import Tensor

NOT_COUNTED = -1  # key of a case that a breakdown leaves out

Asked: TypeAlias = Literal["as tested", "other starts", "other operands"]
Unit: TypeAlias = Literal["examples", "predictions"]
About: TypeAlias = Literal["everything", "symbols", "stop"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Tally:
    """Cases that share a key."""

    key: int
    num_cases: int
    num_wrong: int

    @property
    def share(self) -> float:
        return self.num_wrong / self.num_cases


@dataclass(frozen=True, kw_only=True, slots=True)
class Breakdown:
    """Cases by the keys of one possible cause."""

    name: str
    asked: Asked  # which of the three ways of asking (`pcore.diagnosis.failures`)
    unit: Unit  # what a case is
    about: About = "everything"  # the targets among the cases: all, all but EOS, or EOS alone
    tallies: tuple[Tally, ...]  # by ascending key

    @property
    def num_cases(self) -> int:
        return sum(tally.num_cases for tally in self.tallies)

    @property
    def num_wrong(self) -> int:
        return sum(tally.num_wrong for tally in self.tallies)

    @property
    def explained(self) -> float:
        """Share of the variance of right and wrong that the key explains, 0 to 1.

        Epsilon squared (Kelley 1935): the correlation ratio less what as many random groups have.
        """
        cases, share = self.num_cases, self.num_wrong / max(1, self.num_cases)
        if not 0 < share < 1 or cases <= len(self.tallies):
            return 0.0
        total = cases * share * (1 - share)
        between = sum(tally.num_cases * (tally.share - share) ** 2 for tally in self.tallies)
        scale = (cases - 1) / (cases - len(self.tallies))
        return round(max(0.0, 1 - scale * (total - between) / total), 9)


def break_down(
    name: str,
    asked: Asked,
    unit: Unit,
    keys: Int[Tensor, "*N"],
    wrong: Bool[Tensor, "*N"],
    about: About = "everything",
) -> Breakdown:
    """Count cases and wrong cases by key; cases with a key of NOT_COUNTED are left out."""
    counted = keys != NOT_COUNTED
    values, group = keys[counted].unique(return_inverse=True)
    cases = group.bincount(minlength=len(values))
    errors = group.bincount(wrong[counted].double(), minlength=len(values))
    tallies = zip(values.tolist(), cases.tolist(), errors.tolist(), strict=True)
    return Breakdown(
        name=name,
        asked=asked,
        unit=unit,
        about=about,
        tallies=tuple(Tally(key=k, num_cases=n, num_wrong=round(e)) for k, n, e in tallies),
    )

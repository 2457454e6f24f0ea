"""Progress of running trials: what is new since the last report."""

from dataclasses import dataclass

from pcore.training import Report


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """Exact match at one length, under one checkpoint policy."""

    checkpoint: str  # policy
    length: int
    second_length: int | None
    range: str  # train, near, test
    num_correct: int
    num_examples: int


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialReport:
    """The progress of a running trial."""

    step: int
    num_steps: int
    loss: float  # mean training loss since the report before, nats per target
    learning_rate: float
    grad_norm: float  # before clipping
    seconds: float  # in training steps so far, of this attempt
    measured: tuple[Measured, ...] = ()  # lengths measured since the report before

    @property
    def share(self) -> float:
        """Share of training steps done, 0 to 1."""
        return self.step / self.num_steps if self.num_steps else 1.0


class News:
    """Extracts what is new from reports, which repeat earlier measurements."""

    def __init__(self) -> None:
        self.known: dict[str, tuple[int, int]] = {}  # step and number of lengths told of each trial

    def begin(self, name: str) -> None:
        """A new attempt at this trial: forget what was reported."""
        self.known[name] = (-1, 0)

    def read(self, name: str, report: Report) -> TrialReport | None:
        """What is new in this report of a trial, if anything."""
        (step, first), told = self.known[name], (report.step, len(report.results))
        if (step, first) == told:
            return None
        self.known[name] = told
        measured = tuple(
            Measured(
                checkpoint=result.checkpoint,
                length=result.length,
                second_length=result.second_length,
                range=result.range,
                num_correct=result.counts.num_correct,
                num_examples=result.counts.num_examples,
            )
            for result in report.results[first:]
        )
        return TrialReport(
            step=report.step,
            num_steps=report.num_steps,
            loss=report.loss,
            learning_rate=report.learning_rate,
            grad_norm=report.grad_norm,
            seconds=report.seconds,
            measured=measured,
        )

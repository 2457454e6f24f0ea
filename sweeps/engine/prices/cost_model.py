"""The cost model: seconds of a trial from two terms, fitted to measured trials.

seconds = a x training steps + b x operations (training and evaluation, `pcore.evaluation.flops`).

On the published laptop rows this predicts shapes left out of the fit as well as a model with eleven
terms did. The fit minimises squared *relative* errors with a, b >= 0; if the rows cannot separate
the two, their ratio stays near TYPICAL.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pcore.config import TrialConfig
from pcore.evaluation.flops import count_flops, count_train_flops

MIN_STEPS = 4  # different training steps that a fit needs
NOISE = 0.05  # relative error of a measured duration
SPREAD = 0.7  # relative uncertainty of the proportion of TYPICAL


@dataclass(frozen=True, kw_only=True, slots=True)
class Amounts:
    """The quantities that the duration of a trial depends on."""

    num_steps: int
    train_operations: float
    operations: float  # of the whole trial

    @property
    def step_operations(self) -> float:
        """Operations of a training step."""
        return self.train_operations / self.num_steps

    @property
    def step(self) -> str:
        """The same, rounded: alike in trials that differ in their length."""
        return f"{self.step_operations:.4g}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Measurement:
    """The amounts of a trial and the seconds it took."""

    amounts: Amounts
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class CostModel:
    """Seconds of a training step beside its operations, and seconds of one operation."""

    per_step: float
    per_operation: float

    def seconds(self, amounts: Amounts) -> float:
        """Seconds of a whole trial."""
        return self.per_step * amounts.num_steps + self.per_operation * amounts.operations

    def step_seconds(self, amounts: Amounts) -> float:
        """Seconds of one training step."""
        return self.per_step + self.per_operation * amounts.step_operations


TYPICAL = CostModel(per_step=4e-3, per_operation=2.2e-11)  # one core of a 2024 server


def count_amounts(config: TrialConfig) -> Amounts:
    """The amounts of a trial. Every second length is an evaluation of its own."""
    training = count_train_flops(config)
    evaluation = count_flops(config) - training
    grid = max(1, len(config.eval.second_lengths))
    return Amounts(
        num_steps=config.optim.num_steps,
        train_operations=training,
        operations=training + evaluation * grid,
    )


def is_enough(measured: Sequence[Measurement]) -> bool:
    """Whether a fit to these is better than a probe."""
    return len({m.amounts.step for m in measured}) >= MIN_STEPS


def _fit_two(factors: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Least squares with two amounts, neither below 0; scipy's `nnls`, whose import takes longer
    than all else that a plan does.
    """
    both = np.linalg.lstsq(factors, targets)[0]
    if (both >= 0).all():
        return both
    alone = np.maximum(factors.T @ targets / (factors**2).sum(axis=0), 0)
    candidates = np.diag(alone)  # on the edge, one of them is 0
    return min(candidates, key=lambda c: float(((factors @ c - targets) ** 2).sum()))


def fit(measured: Sequence[Measurement]) -> CostModel:
    """The model of the machine that produced these measurements.

    Raises ValueError without measurements. How many a fit needs: see `is_enough`.
    """
    if not measured:
        raise ValueError("a cost model needs at least one measured trial")
    seconds = np.array([m.seconds for m in measured])
    amounts = np.array([(m.amounts.num_steps, m.amounts.operations) for m in measured])
    typical = np.array([TYPICAL.per_step, TYPICAL.per_operation])
    scale = np.median(seconds / (amounts @ typical))
    ratios = amounts * typical * scale / seconds[:, None]
    prior = np.eye(2) * NOISE / SPREAD
    targets = np.concatenate([np.ones(len(seconds)), np.diag(prior)])
    factors = _fit_two(np.vstack([ratios, prior]), targets)
    per_step, per_operation = factors * typical * scale
    return CostModel(per_step=float(per_step), per_operation=float(per_operation))


def cross_validate(measured: Sequence[Measurement]) -> list[float]:
    """Measured over predicted seconds of each, predicted from those with other training steps.

    Raises ValueError if all have the same step.
    """
    steps = {m.amounts.step for m in measured}
    if len(steps) < 2:
        raise ValueError("cross-validation needs at least two different training steps")
    models = {step: fit([m for m in measured if m.amounts.step != step]) for step in steps}
    return [m.seconds / models[m.amounts.step].seconds(m.amounts) for m in measured]

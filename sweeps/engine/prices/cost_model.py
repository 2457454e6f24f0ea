"""Seconds of a trial's training, and of the rest of it, as a sum over amounts of work, fitted to
measured trials.

seconds = sum over amounts of (seconds per unit) x (units), none of them below 0. The fit minimises
squared *relative* errors (non-negative least squares on ratios); shapes that other work on the
machine slowed down count less and less (Tukey's biweight). Where the rows do not tell two amounts
apart, the seconds per unit stay near TYPICAL ones in their proportions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.optimize import nnls

from pcore.config import TrialConfig
from sweeps.engine.prices.work import AMOUNTS, count_evaluation, count_training

Part: TypeAlias = Literal["training", "evaluation"]
PARTS: tuple[Part, ...] = get_args(Part)

MIN_STEPS = 4  # different training steps that a fit needs
NOISE = 0.05  # relative error of a measured duration
SPREAD = 0.7  # relative uncertainty of the proportions of TYPICAL
CUTOFF = 4.7  # deviations beyond which a measurement is ignored (Tukey's biweight)
ROUNDS = 10  # of reweighting; later ones change nothing any more
MAX_FOLDS = 20  # of a cross-validation that runs with every plan
NOT_OF_A_STEP = ("calls", "parameter_steps", "drawn_tokens")

# Seconds per unit on one core of a 2024 server. Only their proportions matter.
_TRAINING: dict[str, float] = {
    "calls": 3e-3,
    "blocks": 1e-4,
    "parameter_steps": 3e-9,
    "tokens": 2e-7,
    "multiplications": 1.1e-11,
    "scores": 4e-9,
    "biased_scores": 2e-9,
    "learned_biases": 6e-9,
    "rotations": 1e-9,
    "activations": 7e-10,
    "drawn_tokens": 5e-7,
}
TYPICAL: dict[Part, dict[str, float]] = {
    "training": _TRAINING,
    "evaluation": _TRAINING | {"calls": 0.3, "parameter_steps": 0.0},
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """Amounts of work of a trial, in the order of `AMOUNTS`. Trials of equal shape take equally
    long.
    """

    training: tuple[float, ...]
    evaluation: tuple[float, ...]

    @property
    def step(self) -> tuple[str, ...]:
        """What the model computes in a training step. Trials that are equal in it may differ in
        their number of steps, the size of their position table, or how they are evaluated.
        """
        calls = self.training[AMOUNTS.index("calls")]
        per_step = zip(AMOUNTS, self.training, strict=True)
        return tuple(f"{n / calls:.4g}" for name, n in per_step if name not in NOT_OF_A_STEP)


@dataclass(frozen=True, kw_only=True, slots=True)
class Measurement:
    """What a shape took: seconds of all training steps, and of everything else (evaluation)."""

    shape: Shape
    training: float
    evaluation: float

    @property
    def seconds(self) -> float:
        return self.training + self.evaluation


@dataclass(frozen=True, kw_only=True, slots=True)
class CostModel:
    """Seconds per unit of each amount, in the order of `AMOUNTS`."""

    training: tuple[float, ...]
    evaluation: tuple[float, ...]

    def predict(self, shape: Shape, part: Part) -> float:
        """Seconds of one part of a trial."""
        pairs = zip(getattr(self, part), getattr(shape, part), strict=True)
        return sum(each * amount for each, amount in pairs)

    def seconds(self, shape: Shape) -> float:
        """Seconds of a whole trial."""
        return sum(self.predict(shape, part) for part in PARTS)


def shape_of(config: TrialConfig, device: str = "cpu") -> Shape:
    """The amounts of work of a trial on a kind of device (cpu or anything else)."""
    return Shape(
        training=count_training(config, device).amounts(),
        evaluation=count_evaluation(config).amounts(),
    )


def typical_model() -> CostModel:
    """The model of no machine in particular: its proportions are plausible, its scale is not."""
    values = {part: tuple(TYPICAL[part][name] for name in AMOUNTS) for part in PARTS}
    return CostModel(training=values["training"], evaluation=values["evaluation"])


def is_enough(measured: Sequence[Measurement]) -> bool:
    """Whether a fit to these says more than a probe."""
    return len({m.shape.step for m in measured}) >= MIN_STEPS


def fit(measured: Sequence[Measurement]) -> CostModel:
    """The model of the machine on which these were measured.

    Raises ValueError without measurements. How many are worth a fit: see `is_enough`.
    """
    if not measured:
        raise ValueError("a cost model needs at least one measured shape")
    typical = typical_model()
    fitted = {
        part: _fit_part(
            np.array([getattr(m.shape, part) for m in measured]),
            np.array([getattr(m, part) for m in measured]),
            np.array(getattr(typical, part)),
        )
        for part in PARTS
    }
    return CostModel(training=fitted["training"], evaluation=fitted["evaluation"])


def _fit_part(
    amounts: Float[ndarray, "N A"], seconds: Float[ndarray, " N"], typical: Float[ndarray, " A"]
) -> tuple[float, ...]:
    used = typical > 0
    guess = amounts[:, used] * typical[used]  # seconds of each amount, if all were typical
    scale = np.median(seconds / guess.sum(axis=1))
    ratios = guess * scale / seconds[:, None]
    stay = np.eye(int(used.sum())) * (NOISE / SPREAD)
    weights = np.ones(len(seconds))
    factors = np.ones(int(used.sum()))
    for _ in range(ROUNDS):
        errors = np.log(np.maximum(ratios @ factors, 1e-9))
        deviation = max(NOISE, 1.48 * float(np.median(np.abs(errors))))
        weights = np.clip(1 - (errors / (CUTOFF * deviation)) ** 2, 0, None)
        rows = np.vstack([ratios * weights[:, None], stay])
        factors, _ = nnls(rows, np.concatenate([weights, np.diag(stay)]))
    result = np.zeros(len(typical))
    result[used] = typical[used] * scale * factors
    return tuple(float(value) for value in result)


def cross_validate(
    measured: Sequence[Measurement], max_folds: int | None = None
) -> list[tuple[float, float]]:
    """Predicted and measured seconds of each shape, predicted from those with other steps.

    max_folds: leave out several steps at a time, so that so many fits are enough.
    Raises ValueError if all have the same step.
    """
    steps = {step: i for i, step in enumerate(dict.fromkeys(m.shape.step for m in measured))}
    if len(steps) < 2:
        raise ValueError("cross-validation needs at least two different training steps")
    folds = min(len(steps), max_folds or len(steps))
    fold_of = [steps[m.shape.step] % folds for m in measured]
    models = [
        fit([m for m, other in zip(measured, fold_of, strict=True) if other != fold])
        for fold in range(folds)
    ]
    return [
        (models[fold].seconds(m.shape), m.seconds)
        for m, fold in zip(measured, fold_of, strict=True)
    ]

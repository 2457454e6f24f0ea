"""The definition of a trial: settings, flat dictionary, identity, random generators."""

from pcore.config.flat import (
    GROUPS,
    NUMERICS,
    OWN_CODE,
    SEEDS,
    Scalar,
    canonical,
    coerce,
    flatten,
    format_numbers,
    known_fields,
    override,
    trial_id,
    unflatten,
    without_seeds,
)
from pcore.config.trial import (
    DataConfig,
    EvalConfig,
    ModelConfig,
    OptimConfig,
    PositionConfig,
    TrialConfig,
)

__all__ = [
    "GROUPS",
    "NUMERICS",
    "OWN_CODE",
    "SEEDS",
    "DataConfig",
    "EvalConfig",
    "ModelConfig",
    "OptimConfig",
    "PositionConfig",
    "Scalar",
    "TrialConfig",
    "canonical",
    "coerce",
    "flatten",
    "format_numbers",
    "known_fields",
    "override",
    "trial_id",
    "unflatten",
    "without_seeds",
]

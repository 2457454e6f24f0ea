"""Small decoder-only Transformers on arithmetic: tasks, position schemes, training, evaluation.

Needs only torch. Most programs need only the names below, which are loaded on first use, so that
`import pcore` is fast:

    from pcore import TrialConfig, override, train

    config = override(TrialConfig(), {"task.name": "copy", "model.num_layers": 2})
    *_, last = train(config)            # yields reports; the last one has the weights
    last.results                        # counts per tested length
    model, config = load_model("last.pt")
    solve(model, config, "653+49").response
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    lazy_torch = torch

    from pcore.config import TrialConfig, flatten, override, trial_id, unflatten
    from pcore.evaluation.evaluate import LengthResult, evaluate_lengths
    from pcore.evaluation.generate import Solution, solve
    from pcore.model.checkpoint import load_model, save_model
    from pcore.model.transformer import Transformer, make_model
    from pcore.training.train import Diverged, Report, train
    from pcore.training.validate import validate
else:

    class _LazyTorch:
        """torch, imported when a name of it is first asked for.

        For modules that commands need which compute nothing: torch takes a second to import.
        """

        def __getattr__(self, name: str) -> Any:
            value = getattr(import_module("torch"), name)
            setattr(self, name, value)
            return value

    lazy_torch = _LazyTorch()

__all__ = [
    "Diverged",
    "LengthResult",
    "Report",
    "Solution",
    "Transformer",
    "TrialConfig",
    "evaluate_lengths",
    "flatten",
    "load_model",
    "make_model",
    "override",
    "save_model",
    "solve",
    "train",
    "trial_id",
    "unflatten",
    "validate",
]

_HOMES = {
    "pcore.config": ("TrialConfig", "flatten", "override", "trial_id", "unflatten"),
    "pcore.evaluation.evaluate": ("LengthResult", "evaluate_lengths"),
    "pcore.evaluation.generate": ("Solution", "solve"),
    "pcore.model.checkpoint": ("load_model", "save_model"),
    "pcore.model.transformer": ("Transformer", "make_model"),
    "pcore.training.train": ("Diverged", "Report", "train"),
    "pcore.training.validate": ("validate",),
}


def __getattr__(name: str) -> Any:
    """A public name, from the module that defines it."""
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'pcore' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]

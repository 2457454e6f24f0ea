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

    from pcore.checkpoint import load_model, save_model
    from pcore.config import TrialConfig, flatten, override, trial_id, unflatten
    from pcore.decoding import Solution, solve
    from pcore.evaluation import LengthResult, evaluate_lengths
    from pcore.model import Transformer, make_model
    from pcore.training import Diverged, Report, train
    from pcore.validation import validate
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

_HOMES = ("config", "validation", "evaluation", "decoding", "checkpoint", "training")


def __getattr__(name: str) -> Any:
    """A public name, from the first module that has it: only `config` does without torch."""
    if name in __all__:
        modules = (import_module(f"pcore.{home}") for home in _HOMES)
        return next(getattr(module, name) for module in modules if hasattr(module, name))
    raise AttributeError(f"module 'pcore' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]

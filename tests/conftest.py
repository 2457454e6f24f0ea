"""One thread, and shapes checked by jaxtyping and beartype wherever pcore runs under a test.

Benchmarks (`-m benchmark`) measure pcore as users run it, without these checks.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
import torch
from jaxtyping import install_import_hook

import tests.support.typechecking  # noqa: F401  the hook looks it up by attribute

if TYPE_CHECKING:  # pcore may not be imported before its hook is there
    from pcore.config import TrialConfig

torch.set_num_threads(1)
# A shell that runs tests in the background has them ignore Ctrl-C, and all that they start too.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Before any test module, and with it pcore, is imported."""
    if config.getoption("markexpr") != "benchmark":
        install_import_hook(["pcore"], "tests.support.typechecking.typecheck")


TINY = {
    "model.num_layers": 2,
    "model.num_heads": 2,
    "model.d_model": 16,
    "model.d_head": 8,
    "model.d_ff": 32,
    "data.max_length": 3,
    "data.num_examples": None,
    "optim.learning_rate": 3e-3,
    "optim.num_steps": 12,
    "optim.batch_size": 16,
    "position.max_position": 20,
    "eval.train_lengths": "1-3",
    "eval.test_lengths": "4,6",
    "eval.num_examples": 32,
    "eval.num_checks": 4,
}


@pytest.fixture
def tiny_config() -> TrialConfig:
    """Addition of 1-3 digits with two small layers and 12 steps."""
    from pcore.config import TrialConfig, override

    return override(TrialConfig(), TINY)

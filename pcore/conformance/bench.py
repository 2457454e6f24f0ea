"""The harness: rules in their order, a report, and a tiny trained model to look at.

The training steps matter: a parameter that starts at zero has no effect before.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch

from pcore.config import TrialConfig, override
from pcore.model import Transformer, make_model
from pcore.registry import describe_error
from pcore.training import train

NUM_STEPS = 20  # training before a class is checked
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One rule: kept or not, and what was measured."""

    name: str
    passed: bool
    detail: str


class Broken(Exception):
    """A rule is not kept; the message says how."""


def format_checks(name: str, checks: Iterable[Check]) -> str:
    """A report for people: one line per rule, then the verdict."""
    checks = list(checks)
    width = max((len(c.name) for c in checks), default=0)
    lines = [f"{'ok  ' if c.passed else 'FAIL'}  {c.name:<{width}}  {c.detail}" for c in checks]
    failed = sum(not c.passed for c in checks)
    total = f"{len(checks)} checks"
    verdict = f"{failed} of {total} failed" if failed else f"{total} passed"
    return "\n".join([*lines, f"{name}: {verdict}"])


def run_checks(
    bench: T, needed: Mapping[str, Callable[[T], str]], others: Mapping[str, Callable[[T], str]]
) -> list[Check]:
    """The needed rules one after the other, and the others if all of those are kept. A rule says
    what was measured, or raises.

    After the first needed one that is not kept, only how many wait for it: they would fail for the
    same reason.
    """
    checks: list[Check] = []
    for name, rule in needed.items():
        checks.append(check := _run(bench, name, rule))
        if not check.passed:
            waiting = len(needed) + len(others) - len(checks)
            detail = f"{check.detail} ({waiting} more checks need this one first)"
            return [*checks[:-1], replace(check, detail=detail)]
    return checks + [_run(bench, name, rule) for name, rule in others.items()]


def _run(bench: T, name: str, rule: Callable[[T], str]) -> Check:
    try:
        return Check(name=name, passed=True, detail=rule(bench))
    except Broken as broken:
        return Check(name=name, passed=False, detail=str(broken))
    except Exception as error:  # own code may raise anything: that is the finding
        return Check(name=name, passed=False, detail=describe_error(error))


def tiny_config(changes: dict[str, Any]) -> TrialConfig:
    """Addition of numbers of 1-3 digits, two layers, a few steps."""
    base = {
        "model.num_layers": 2,
        "model.num_heads": 2,
        "model.d_model": 32,
        "model.d_head": 16,
        "model.d_ff": 64,
        "data.max_length": 3,
        "data.num_examples": None,
        "optim.num_steps": NUM_STEPS,
        "optim.batch_size": 16,
        "optim.learning_rate": 1e-2,
        "eval.train_lengths": "2",
        "eval.test_lengths": "4",
        "eval.num_examples": 16,
    }
    return override(TrialConfig(), base | changes)


def train_tiny(config: TrialConfig) -> Transformer:
    """The model that a trial trains and evaluates."""
    with torch.random.fork_rng():
        *_, report = train(config)
        model = make_model(config)
    model.load_state_dict(report.checkpoints["last"])
    return model.eval()

"""Runs checks and formats their report."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pcore.config import TrialConfig, override
from pcore.registry import describe_error

NUM_STEPS = 20  # training before an encoding is checked


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


def run_check(name: str, rule: Callable[[], str]) -> Check:
    """A rule returns what it measured, or raises."""
    try:
        return Check(name=name, passed=True, detail=rule())
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

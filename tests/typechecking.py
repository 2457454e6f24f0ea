"""The type checker behind the import hook of conftest.py: beartype, except where it cannot."""

from collections.abc import Callable
from typing import Any

from beartype import beartype
from beartype.roar import BeartypeDecorHintPep673Exception


def typecheck(function: Callable[..., Any]) -> Callable[..., Any]:
    """beartype decorates methods one by one here, and then refuses those that mention Self."""
    try:
        return beartype(function)
    except BeartypeDecorHintPep673Exception:
        return function

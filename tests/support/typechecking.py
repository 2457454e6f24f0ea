"""The type checker behind the import hook of conftest.py: beartype, except where it cannot."""

from collections.abc import Callable
from typing import Any

from beartype import BeartypeConf, beartype
from beartype.roar import BeartypeDecorHintPep673Exception

_check = beartype(conf=BeartypeConf(is_pep484_tower=True))  # an int is a float


def typecheck(function: Callable[..., Any]) -> Callable[..., Any]:
    """beartype decorates methods one by one here, and then refuses those that mention Self."""
    try:
        return _check(function)
    except BeartypeDecorHintPep673Exception:
        return function

"""Sweeps run pcore as users do: shapes are checked where pcore itself is tested."""

import jaxtyping
import pytest


@pytest.fixture(autouse=True, scope="module")
def unchecked_shapes():
    """Checked, a tiny trial takes twice as long."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)

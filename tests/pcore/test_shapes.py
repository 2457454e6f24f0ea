"""The checks of shapes that tests/conftest.py turns on."""

import pytest
import torch
from jaxtyping import TypeCheckError

from pcore.batch import target_places


def test_a_wrong_shape_is_an_error_in_the_tests_of_pcore():
    mask = torch.zeros(2, 5, dtype=torch.bool)
    target_places(mask)
    with pytest.raises(TypeCheckError):
        target_places(mask[0])

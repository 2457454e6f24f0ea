"""What people type to check the theorems, and what they read."""

import re

import pytest


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("addition", "P = 5, d = 27"),
        ("multiplication", "P = 5, d = 64"),
        ("addition --moduli 2,3,5", "moduli 2,3,5, d = 27"),
    ],
)
def test_construct_proves_a_length_with_the_least_number_of_bits(pcore, name, numbers):
    code, out, err = pcore(*f"construct {name} --digits 15 --examples 20".split())
    assert (code, err) == (0, "")
    assert numbers in out
    assert "20 of 20 random examples of 15 digits: all right" in out
    assert re.search(r"\n(\d+) of \1 hardest cases of 15 digits: all right", out)

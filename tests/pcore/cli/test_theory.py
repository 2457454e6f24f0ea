"""What people type to check the theorems, and what they read."""

import re

import pytest


@pytest.fixture
def run(pcore):
    """Run a command line: (exit code, standard output, standard error)."""
    return lambda line: pcore(*line.split())


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("addition", "P = 5, d = 27"),
        ("multiplication", "P = 5, d = 64"),
        ("scratchpad --operands 4", "P = 5, d = 39"),
        ("addition --moduli 2,3,5", "moduli 2,3,5, d = 27"),
    ],
)
def test_construct_proves_a_length_with_the_least_number_of_bits(run, name, numbers):
    code, out, err = run(f"construct {name} --digits 15 --examples 20")
    assert (code, err) == (0, "")
    assert numbers in out
    assert "20 of 20 random examples of 15 digits: all right" in out
    assert re.search(r"\n(\d+) of \1 hardest cases of 15 digits: all right", out)


def test_ceiling_prints_the_published_shares(run):
    code, out, err = run("ceiling --digits 3")
    assert (code, err) == (0, "")
    assert out.splitlines()[-2:] == [
        "     2     32.938 %  2,668 of 8,100",
        "     3      6.191 %  50,150 of 810,000",
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("construct adition", "no construction for 'adition'. Did you mean 'addition'?"),
        ("construct addition --digits 0", "--digits 0 is below 1"),
        ("construct addition --digits 5000", "--digits 5,000 is above 4,000"),
        (
            "construct addition --operands 3",
            "--operands 3 works only with scratchpad, not with addition",
        ),
        ("construct scratchpad --operands 1", "--operands 1 is below 2"),
        ("construct addition --examples -1", "--examples -1 is below 0"),
        ("construct addition --moduli 3,5", "--moduli 3,5 adds up to 13 digits, not 100"),
        ("construct addition --moduli 4,6", "--moduli=4,6: 4 and 6 have the factor 2 in common"),
        ("construct addition --moduli 5,1", "--moduli=5,1 holds 1, which is below 2"),
        ("construct addition --moduli 5;7", "--moduli: '5;7' is not a length, a range"),
        (
            "construct addition --moduli 101,991,2",
            "--moduli 101,991,2 distinguishes more than 100,000 IDs",
        ),
        ("construct scratchpad --moduli 5,7", "--moduli 5,7 works only with addition, not with s"),
        ("construct addition --device warp", "device 'warp' is not available here"),
        ("ceiling --digits 5", "--digits 5 is above 4"),
        ("ceiling --digits 0", "--digits 0 is below 1"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(run, line, message):
    code, out, err = run(line)
    assert (code, out) == (2, "")
    assert err.startswith(f"pcore: {message}")
    assert err.count("\n") == 1

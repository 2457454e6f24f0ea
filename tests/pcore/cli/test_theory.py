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


def test_construct_fails_loudly_where_arithmetic_is_too_coarse(run):
    code, out, _ = run("construct multiplication --digits 3 --examples 10 --dtype bfloat16")
    assert code == 1
    assert "WRONG" in out


def test_limits_stand_at_the_bound_of_the_theorem(run):
    code, out, err = run("construct addition --limits --max-bits 3 --examples 5")
    assert (code, err) == (0, "")
    rows = [line.split() for line in out.splitlines()[2:-1]]
    assert [row[0] for row in rows] == ["2", "3"]
    assert [row[3:] for row in rows] == [["2"] * 5, ["6"] * 5]  # bound, then four dtypes


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
        ("construct addition --moduli 5;7", "--moduli '5;7' is not numbers like 5,7,9"),
        (
            "construct addition --moduli 101,991,2",
            "--moduli 101,991,2 distinguishes more than 100,000 IDs",
        ),
        ("construct scratchpad --moduli 5,7", "--moduli 5,7 works only with addition, not with s"),
        ("construct addition --limits --moduli 5,7", "--moduli does not go with --limits"),
        ("construct addition --dtype float", "unknown dtype 'float'. Did you mean 'float64'?"),
        ("construct addition --device warp", "device 'warp' is not available here"),
        ("construct addition --limits --digits 4", "--digits does not go with --limits"),
        ("construct addition --max-bits 4", "--max-bits needs --limits"),
        ("construct addition --limits --max-bits 1", "--max-bits 1 is below 2"),
        ("ceiling --digits 6", "--digits 6 is above 5"),
        ("ceiling --digits 0", "--digits 0 is below 1"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(run, line, message):
    code, out, err = run(line)
    assert (code, out) == (2, "")
    assert err.startswith(f"pcore: {message}")
    assert err.count("\n") == 1

"""`pcore show`: what people type, and what they read."""

import re
import subprocess
import sys

import pytest


@pytest.fixture
def show(pcore):
    """What `pcore show` prints: the cells of each row by its label."""

    def run(*words):
        code, out, err = pcore("show", *words)
        assert (code, err) == (0, "")
        rows = re.findall(r"^(token|\w+ ID(?: \(\w+\))?) +(.*)$", out, re.MULTILINE)
        return {label: cells.split() for label, cells in rows}

    return run


def test_show_prints_tokens_over_ids(pcore):
    assert pcore("show", "addition", "653+49", "--start", 8) == (
        0,
        "token        $  6  5 3 +  0  4 9 = 2  0  7  0 $\n"
        "relative ID  .  3  2 1 0  3  2 1 0 1  2  3  4 .\n"
        "position ID  . 11 10 9 8 11 10 9 8 9 10 11 12 .\n",
        "",
    )


def test_show_prints_one_row_for_each_level(pcore):
    _, out, _ = pcore("show", "minesweeper", "EME/EEE")
    assert out == (
        "token                 ^ E M E E E E = 1 M 1 1 1 1 $\n"
        "relative ID (column)  . 1 2 3 1 2 3 0 1 2 3 1 2 3 .\n"
        "relative ID (row)     . 1 1 1 2 2 2 0 1 1 1 2 2 2 .\n"
        "position ID (column)  . 2 3 4 2 3 4 1 2 3 4 2 3 4 .\n"
        "position ID (row)     . 2 2 2 3 3 3 1 2 2 2 3 3 3 .\n"
    )


def test_the_equals_sign_of_a_query_may_be_typed(show):
    assert show("addition", "653+49=") == show("addition", "653+49")


def test_a_token_without_an_id_on_a_level_has_a_dot_there(show):
    tokens, *relative, first, second, third = show(
        "multiplication", "595*79", "--scratchpad"
    ).values()
    assert "".join(tokens) == "$595*79=5535+5614=55350>50074$"
    assert [level[5] for level in relative] == [".", "1", "."]
    assert "".join(first) == ".432...1234512345............."
    assert "".join(second) == ".....211111122222111111222222."
    assert "".join(third) == ".......1234523456123456123456."


@pytest.mark.parametrize(
    ("words", "tokens"),
    [
        ("addition --zero-pad 653+49", "$653+049=2070$"),
        ("addition 653+49 --no-zero_pad", "$653+49=207$"),
        ("addition --no-zero-pad --reverse-query 653+49", "$356+94=207$"),
        ("addition --num_operands=3 1+2+3", "$1+2+3=60$"),
        ("--num-operands 3 --no-zero-pad addition 1+22+3", "$1+22+3=62$"),
        ("addition 1+2+3", "$1+2+3=60$"),
        ("parity --scratchpad 1", "$1=1$"),  # no value of the flag
    ],
)
def test_options_may_be_written_in_all_forms_before_and_after(show, words, tokens):
    assert "".join(show(*words.split())["token"]) == tokens


def test_a_closed_pipe_is_no_traceback():
    script = "import sys; from pcore.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", script, "show", "copy", "12"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout
    assert process.stderr
    process.stdout.close()
    assert b"Traceback" not in process.stderr.read()
    process.stderr.close()
    assert process.wait() == 1


@pytest.mark.parametrize(
    ("task", "query", "words", "suffix"),
    [
        ("minesweeper", "EMEEM/EEEME/MEEEE", [], "png"),
        ("addition", "57+48+96+12+7", ["--scratchpad"], "svg"),
    ],
)
def test_a_picture_is_written(pcore, tmp_path, task, query, words, suffix):
    file = tmp_path / f"a.{suffix}"
    code, out, err = pcore("show", task, query, *words, "--picture", file)
    assert (code, out, err) == (0, f"{file}\n", "")
    content = file.read_bytes()
    assert content.startswith(b"\x89PNG" if suffix == "png" else b"<?xml")
    assert len(content) > 1000

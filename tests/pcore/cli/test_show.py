"""`pcore show`: what people type, and what they read."""

import json
import subprocess
import sys

import pytest


@pytest.fixture
def show(pcore):
    """The JSON object of `pcore show ... --json`."""

    def run(*words):
        code, out, err = pcore("show", *words, "--json")
        assert (code, err) == (0, "")
        return json.loads(out)

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


def test_a_token_without_an_id_on_a_level_is_null_and_zero(show):
    found = show("multiplication", "595*79", "--scratchpad")
    assert found["response"] == "5535+5614=55350>50074"
    assert "".join(found["tokens"]) == f"$595*79={found['response']}$"
    assert [level[5] for level in found["relative_ids"]] == [None, 1, None]
    assert found["position_ids"] == [
        [0, 4, 3, 2, 0, 0, 0, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5, *[0] * 13],
        [*[0] * 5, 2, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, *[1] * 6, *[2] * 6, 0],
        [*[0] * 7, *range(1, 6), *range(2, 7), *range(1, 7), *range(1, 7), 0],
    ]


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
    assert "".join(show(*words.split())["tokens"]) == tokens


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

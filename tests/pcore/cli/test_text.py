"""What other people wrote into rows and files commands no terminal."""

import io
import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcore.cli.text import CONTROL, plain, plain_output

TITLE = "\x1b]0;owned\x07", r"\u001b]0;owned\u0007"


@given(st.text(st.characters(max_codepoint=0x2100)))
def test_plain_text_has_no_control_characters_and_other_text_stays(text):
    shown = plain(text)
    assert not CONTROL.search(shown)
    assert shown == text or CONTROL.search(text)
    assert json.loads(f'"{plain(TITLE[0])}"') == TITLE[0], "also inside JSON"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        TITLE,
        ("loss 2.1\rloss 0.0", r"loss 2.1\u000dloss 0.0"),
        ("\r\x1b[2Kstep 3 \x1b[2J", "\r\x1b[2Kstep 3 \\u001b[2J"),
        ("a\tb\nc", "a\tb\nc"),
        ("\u202etxt.exe", r"\u202etxt.exe"),
        ("naïve → 95 %", "naïve → 95 %"),
    ],
)
def test_only_a_progress_line_of_ours_moves_the_cursor(capsys, text, shown):
    with plain_output():
        print(text)
        print(text, file=sys.stderr)
    assert capsys.readouterr() == (shown + "\n", shown + "\n")


def test_a_terminal_without_a_character_gets_its_number(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    with plain_output():
        print("95 % → right", flush=True)
    assert stream.buffer.getvalue() == b"95 % \\u2192 right\n"

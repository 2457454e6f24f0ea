"""What people type at the console, and what they read."""

import dataclasses
import io
import json
import os
import subprocess
import sys

import pytest

from pcore.cli import main
from pcore.cli import screen as console
from pcore.cli.example import make_example
from pcore.cli.screen import format_solution, format_time
from pcore.evaluation.generate import Solution
from pcore.tasks import TASKS

PADDED = {
    "tokens": list("$653+049=2070$"),
    "relative_ids": [[None, 3, 2, 1, 0, 3, 2, 1, 0, 1, 2, 3, 4, None]],
    "position_ids": [[0, 4, 3, 2, 1, 4, 3, 2, 1, 2, 3, 4, 5, 0]],
    "response": "2070",
}


@pytest.fixture
def pcore(capsys, monkeypatch):
    """Run a command line: (exit code, standard output, standard error)."""

    def run(*words, stdin=""):
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def show(pcore):
    """The JSON object of `pcore show ... --json`."""

    def run(*words):
        code, out, err = pcore("show", *words, "--json")
        assert (code, err) == (0, "")
        return json.loads(out)

    return run


# show -----------------------------------------------------------------------------------------


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


def test_show_gives_the_golden_json(show):
    assert show("addition", "653+49") == PADDED


def test_show_scratchpad_has_two_levels(show):
    found = show("addition", "57+48+96", "--scratchpad")
    assert "".join(found["tokens"]) == "$057+048+096=000>750>501>102$"
    assert found["response"] == "000>750>501>102"
    assert "".join(map(str, found["position_ids"][1])) == "01111222233311112222333344440"
    assert found["relative_ids"][0][:5] == [None, 3, 2, 1, 0]


def test_a_token_without_an_id_on_a_level_is_null_and_zero(show):
    found = show("multiplication", "595*79", "--scratchpad")
    assert "".join(found["tokens"]) == "$595*79=5535+5614=55350>50074$"
    assert [level[5] for level in found["relative_ids"]] == [None, 1, None]
    assert found["position_ids"] == [
        [0, 4, 3, 2, 0, 0, 0, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5, *[0] * 13],
        [*[0] * 5, 2, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, *[1] * 6, *[2] * 6, 0],
        [*[0] * 7, *range(1, 6), *range(2, 7), *range(1, 7), *range(1, 7), 0],
    ]


@pytest.mark.parametrize(
    ("words", "tokens"),
    [
        (["653+49", "--zero-pad"], "$653+049=2070$"),
        (["--zero-pad", "653+49"], "$653+049=2070$"),
        (["--zero-pad", "true", "653+49"], "$653+049=2070$"),
        (["--no-zero-pad", "653+49"], "$653+49=207$"),
        (["653+49", "--no-zero-pad"], "$653+49=207$"),
        (["--no_zero_pad", "653+49"], "$653+49=207$"),
        (["--zero-pad", "false", "653+49"], "$653+49=207$"),
        (["--zero-pad", "False", "653+49"], "$653+49=207$"),
        (["--zero-pad=false", "653+49"], "$653+49=207$"),
        (["--zero_pad=no", "653+49"], "$653+49=207$"),
        (["653+49", "--zero-pad=0"], "$653+49=207$"),
        (["--no-zero-pad", "--reverse-query", "653+49"], "$356+94=207$"),
        (["--no-reverse-response", "--zero-pad", "no", "653+49"], "$653+49=702$"),
        (["--num-operands", "3", "1+2+3"], "$1+2+3=60$"),
        (["--num_operands=3", "1+2+3"], "$1+2+3=60$"),
        (["1+2+3"], "$1+2+3=60$"),
        (["--min-operands", "2", "--num-operands", "4", "1+2+3"], "$1+2+3=60$"),
    ],
    ids=" ".join,
)
def test_options_may_be_written_in_all_forms_before_and_behind(show, words, tokens):
    assert "".join(show("addition", *words)["tokens"]) == tokens


def test_options_may_stand_before_the_task(show):
    words = ("--num-operands", "3", "--no-zero-pad", "addition", "1+22+3")
    assert "".join(show(*words)["tokens"]) == "$1+22+3=62$"


def test_a_boolean_takes_no_digit_for_its_value(show):
    assert show("parity", "--scratchpad", "1")["tokens"] == ["$", "1", "=", "1", "$"]


def test_a_start_shifts_all_levels(show):
    one, nine = show("minesweeper", "EM/EE"), show("minesweeper", "EM/EE", "--start", "9")
    assert one["relative_ids"] == nine["relative_ids"]
    for before, after in zip(one["position_ids"], nine["position_ids"], strict=True):
        assert after == [i + 8 if i else 0 for i in before]


def test_a_dash_reads_queries_from_standard_input(pcore):
    code, out, err = pcore("show", "addition", "-", stdin="653+49\n\n1+2+3\n")
    answers = [json.loads(line) for line in out.splitlines()]
    assert (code, err) == (0, "")
    assert answers[0] == PADDED
    assert answers[1]["response"] == "60"


def test_a_bad_line_becomes_an_error_object_in_its_place(pcore):
    code, out, _ = pcore("show", "addition", "-", stdin="1+1\nspam\n2+2\n")
    answers = [json.loads(line) for line in out.splitlines()]
    assert code == 1
    assert set(answers[1]) == {"error", "query"}
    assert answers[1]["query"] == "spam"
    assert [a.get("response") for a in answers] == ["20", None, "40"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["show", "additon", "1+1"], "unknown task 'additon'. Did you mean 'addition'?"),
        (["show", "addition", "1+1", "--zero-pda"], "Did you mean '--zero-pad'?"),
        (["show", "addition", "1+1", "--strat", "2"], "Did you mean '--start'?"),
        (["show", "addition", "1+1", "-z"], "unknown option -z"),
        (["show", "addition", "1+2", "--num-operands", "3"], "'1+2' has 2 operands"),
        (["show", "addition", "1+2", "--num-operands"], "--num-operands needs a value"),
        (["show", "addition", "1+2", "--num-operands", "x"], "--num-operands='x' is not a valid"),
        (["show", "addition", "1+2", "--zero-pad=perhaps"], "--zero-pad='perhaps' is not a valid"),
        (["show", "addition", "1+2", "--no-zero-pad=true"], "--no-zero-pad takes no value"),
        (["show", "addition", "1+2", "--reverse-query", "--no-reverse-response"], "reverse_query"),
        (["show", "addition", "1+2", "--start", "0"], "--start 0 is below 1"),
        (["show", "addition", "1+2", "--start", "one"], "--start"),
        (["show", "addition"], "QUERY"),
        (["show", "addition", "1+2", "3+4"], "unrecognized arguments: 3+4"),
        (["show", "addition", "twelve"], "'twelve'"),
        (["show", "addition", "-", "--reverse-query", "--no-reverse-response"], "reverse_query"),
        (["show", "addition", "-", "--picture", "x.png"], "--picture draws one query"),
        (["show", "addition", "1+2", "--picture", "x.bmp"], ".png, .pdf or .svg"),
        (["show", "addition", "1+2", "--picture", "/no/where/x.png"], "no folder /no/where"),
        (["shwo", "addition", "1+1"], "unknown command 'shwo'. Did you mean 'show'?"),
        (["train", "--num-layer", "2"], "Did you mean '--model.num-layers'?"),
        (["train", "--num-examples", "2"], "--data.num_examples or --eval.num_examples"),
        (["train", "--model.num_layers", "0"], "model.num_layers=0 is below 1"),
        (["train", "--task", "additon"], "Did you mean 'addition'?"),
        (["train", "--preset", "smok"], "unknown preset 'smok'. Did you mean 'smoke'?"),
        (["train", "--device", "abacus"], "device 'abacus' is not available"),
        (["train", "--out", "/tmp"], "/tmp is a folder"),
        (["solve", "no.pt", "1+1"], "no checkpoint at no.pt"),
        (["solve", "/tmp", "1+1"], "/tmp is a folder, not a checkpoint file"),
        (["solve", "no.pt"], "QUERY"),
        (["solve"], "CHECKPOINT"),
        (["check-task"], "NAME"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_use_is_one_sentence_and_exit_code_2(pcore, words, message):
    code, out, err = pcore(*words, stdin="1+1\n")
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert "Traceback" not in err


def test_a_file_that_is_no_checkpoint_is_one_sentence(pcore, tmp_path):
    (tmp_path / "m.pt").write_text("nothing")
    code, _, err = pcore("solve", tmp_path / "m.pt", "1+1")
    assert code == 2
    assert err.count("\n") == 1
    assert "not a readable checkpoint" in err


@pytest.mark.parametrize("name", TASKS)
def test_help_of_a_task_lists_its_options(capsys, name):
    with pytest.raises(SystemExit) as stop:
        main(["show", name, "--help"])
    assert stop.value.code == 0
    out = capsys.readouterr().out
    names = [field.name for field in dataclasses.fields(TASKS[name])]
    assert all(f"--{n.replace('_', '-')}" in out for n in names)


def test_help_answers_without_torch():
    code = "import sys, pcore.cli\ntry: pcore.cli.main(['--help'])\nexcept SystemExit: pass\n"
    script = f"{code}assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


def test_a_closed_pipe_is_no_traceback():
    script = "import sys; from pcore.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", script, "show", "addition", "-"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin
    assert process.stdout
    assert process.stderr
    process.stdout.close()
    process.stdin.write(b"1+1\n" * 5)
    process.stdin.close()
    assert b"Traceback" not in process.stderr.read()
    process.stderr.close()
    assert process.wait() == 1


@pytest.mark.parametrize(
    ("task", "query", "words"),
    [
        ("addition", "653+49", []),
        ("minesweeper", "EMEEM/EEEME/MEEEE", []),
        ("addition", "57+48+96+12+7", ["--scratchpad"]),
        ("multiplication", "595*79", ["--scratchpad"]),
        ("addition", f"{'7' * 60}+1", []),
    ],
)
@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_a_picture_is_written(pcore, tmp_path, task, query, words, suffix):
    file = tmp_path / f"a.{suffix}"
    code, out, err = pcore("show", task, query, *words, "--picture", file)
    assert (code, out, err) == (0, f"{file}\n", "")
    content = file.read_bytes()
    assert content.startswith(b"\x89PNG" if suffix == "png" else b"<?xml")
    assert len(content) > 1000


def test_lines_of_a_picture_cover_the_tokens_and_break_behind_the_equals_sign():
    from pcore.cli.picture import BOXES_PER_LINE, split_lines

    for query in ("1+1", "5" * 12 + "+3", "5" * 90 + "+3", "1+2+3+4+5+6+7+8+9+10+11"):
        task = TASKS["addition"]().for_query(query)
        example = make_example(task, query, 1)
        lines = split_lines(example.tokens, example.num_context)
        covered = [place for first, end in lines for place in range(first, end)]
        assert covered == list(range(len(example.tokens)))
        assert all(0 < end - first <= BOXES_PER_LINE for first, end in lines)
        assert len(lines) == 1 or example.num_context in {end for _, end in lines}


def test_text_on_every_colour_of_a_picture_is_readable():
    from pcore.cli.picture import _colour, _ink

    def luminance(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        r, g, b = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    for identifier in range(1, 101):
        fill = _colour(identifier, 1, 100)
        light, dark = sorted((luminance(fill), luminance(_ink(fill))), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5


# train and solve ------------------------------------------------------------------------------

SHORT = ("--preset", "smoke", "--num-steps", 20, "--batch-size", 8, "--eval.num-examples", 10)


@pytest.fixture
def trained(pcore, tmp_path, monkeypatch):
    """(model file, output) of a short training in an empty folder."""
    monkeypatch.chdir(tmp_path)
    code, out, err = pcore("train", *SHORT, "--out", "m.pt")
    assert (code, err) == (0, "")
    return tmp_path / "m.pt", out


def test_train_says_what_it_trains_how_it_goes_and_what_came_out(trained):
    file, out = trained
    lines = out.splitlines()
    assert lines[0].startswith("trial ")
    assert "parameters, on cpu" in lines[0]
    assert any(line.split()[:2] == ["task", "name=addition"] for line in lines)
    steps = [line for line in lines if line.startswith("step")]
    assert len(steps) == 10
    assert all(word in steps[0] for word in ("2/20", "loss", "lr", "steps/s", "left"))
    table = [line.split()[:2] for line in lines[lines.index("") + 3 : -1]]
    assert table == [["train", "1"], ["train", "2"], ["test", "3"], ["test", "4"], ["test", "5"]]
    assert lines[-1] == "model (last): m.pt"
    assert os.listdir(file.parent) == ["m.pt"], "the state of a finished trial is removed"


def test_solve_shows_the_answer_next_to_the_truth(trained, pcore):
    file, _ = trained
    code, out, err = pcore("solve", file, "12+34", "5+6")
    assert (code, err) == (0, "")
    assert "12+34: " in out
    assert "  truth   6 4 0" in out
    assert out.splitlines()[-1].endswith("of 2 right")
    assert pcore("solve", file, "-", stdin="12+34\n\n5+6\n")[1] == out


def test_solve_refuses_what_the_model_cannot_reach(trained, pcore):
    file, _ = trained
    code, _, err = pcore("solve", file, "12345678+1")
    assert (code, err.count("\n")) == (2, 1)
    assert "position IDs up to 8, below 10" in err
    code, _, err = pcore("solve", file.parent, "1+1")
    assert "is a folder, not a checkpoint file; it holds m.pt" in err


def test_other_policies_are_written_beside_the_first(pcore, tmp_path):
    out = tmp_path / "m.pt"
    code, text, _ = pcore("train", *SHORT, "--out", out, "--eval.checkpoints", "last,best")
    assert code == 0
    assert sorted(os.listdir(tmp_path)) == ["m.best.pt", "m.pt"]
    assert "checkpoint policy best" in text


def test_an_interrupted_training_goes_on_to_the_same_weights(trained, pcore, monkeypatch):
    import signal

    import torch

    file, _ = trained
    words = ("train", *SHORT, "--out", "again.pt", "--checkpoint", "state.pt")
    show = console._ProgressLine.show

    def interrupt_at_7(self, report):
        show(self, report)
        if report.step == 7:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(console._ProgressLine, "show", interrupt_at_7)
        code, out, _ = pcore(*words)
    assert code == 130
    assert "stopped at step 7" in out
    assert "the same command again" in out
    assert sorted(os.listdir()) == ["m.pt", "state.pt"]

    code, out, _ = pcore(*words)
    assert code == 0
    assert "going on from step 7" in out
    whole, resumed = (torch.load(f, weights_only=True)["model"] for f in (file, "again.pt"))
    assert all(torch.equal(w, resumed[n]) for n, w in whole.items())


def test_a_state_of_another_trial_is_not_overwritten(pcore, tmp_path):
    state = tmp_path / "state.pt"
    state.write_text("precious")
    code, _, err = pcore("train", *SHORT, "--out", tmp_path / "m.pt", "--checkpoint", state)
    assert code == 2
    assert "damaged or belongs to another trial" in err
    assert state.read_text() == "precious"


def test_fields_are_flags_by_dotted_and_by_short_name(pcore, tmp_path):
    code, out, _ = pcore(
        *("train", *SHORT, "--out", tmp_path / "m.pt", "--task", "addition", "--no-zero-pad"),
        *("--model.num_layers", 2, "--position.encoding=none", "--d-ff", 16, "--seed", 5),
    )
    assert code == 0
    for text in ("zero_pad=False", "num_layers=2", "encoding=none", "d_ff=16", "seed=5"):
        assert text in out


def test_divergence_is_a_sentence_and_exit_code_1(pcore, tmp_path):
    words = ("--learning-rate", "1e38", "--grad-clip", 0, "--out", tmp_path / "m.pt")
    code, _, err = pcore("train", *SHORT, *words)
    assert (code, err.count("\n")) == (1, 1)
    assert "training loss is nan" in err


def test_a_terminal_gets_one_changing_line(pcore, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr(console, "SECONDS_BETWEEN_LINES", 0.0)
    _, out, _ = pcore("train", *SHORT, "--out", tmp_path / "m.pt")
    assert out.count("\rstep") == 20


def test_wrong_tokens_are_marked():
    wrong = Solution(query="12+34", response=("6", "5"), truth=("6", "4", "0"), stopped=True)
    assert format_solution(wrong).splitlines() == [
        "12+34: wrong",
        "  answer  6 5  ",
        "  truth   6 4 0",
        "            ^ ^",
    ]
    right = Solution(query="1+1", response=("2", "0"), truth=("2", "0"), stopped=True)
    assert format_solution(right) == "1+1: right\n  answer  2 0\n  truth   2 0"
    on = Solution(query="1+1", response=("2", "0", "7"), truth=("2", "0"), stopped=False)
    assert "wrong, and it does not stop" in format_solution(on)


def test_times_are_written_for_people():
    assert [format_time(s) for s in (3.6, 61, 7500)] == ["4 s", "1 min 1 s", "2 h 5 min"]


# check-encoding, check-task -------------------------------------------------------------------


def test_a_conforming_task_and_encoding_pass(pcore):
    code, out, _ = pcore("check-task", "copy")
    assert (code, "FAIL" in out) == (0, False)
    code, out, _ = pcore("check-encoding", "none")
    assert (code, "FAIL" in out) == (0, False)


def test_own_code_beside_the_person_is_found_and_its_failure_is_exit_code_1(
    pcore, tmp_path, monkeypatch
):
    (tmp_path / "mine.py").write_text(
        "import torch\nfrom pcore.encodings import Encoding\n"
        "class Leaky(Encoding):\n    uses_ids = True\n"
        "    def embed(self, ids):\n        return torch.rand(*ids.shape[:2], 32)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    code, out, _ = pcore("check-encoding", "mine:Leaky")
    assert code == 1
    assert "FAIL" in out

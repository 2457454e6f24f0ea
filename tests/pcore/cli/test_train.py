"""`pcore train`: progress, files, results, Ctrl-C."""

import os
import signal

import pytest
import torch

from pcore.cli import train
from pcore.theory.addition import make_addition

SHORT = ("--preset", "small", "--num-steps", 20, "--batch-size", 8, "--eval.num-examples", 10)


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
    table = [line.split()[:2] for line in lines[lines.index("") + 3 : -2]]
    assert table == [["train", "1"], ["train", "2"], ["test", "3"], ["test", "4"], ["test", "5"]]
    assert lines[-2] == "Preset small is meant to show that training runs, not what can be learned."
    assert lines[-1] == "model (last): m.pt"
    assert os.listdir(file.parent) == ["m.pt"], "the state of a finished trial is removed"


def test_other_policies_are_written_beside_the_first(pcore, tmp_path):
    flags = ("--eval.checkpoints", "last,best", "--task", "addition", "--no-zero-pad")
    code, text, _ = pcore("train", *SHORT, *flags, "--d-ff", 16, "--out", tmp_path / "m.pt")
    assert code == 0
    assert all(told in text for told in ("zero_pad=False", "d_ff=16"))
    assert sorted(os.listdir(tmp_path)) == ["m.best.pt", "m.pt"]
    assert "checkpoint policy best" in text


def test_the_model_of_a_theorem_is_evaluated_without_training(pcore, tmp_path):
    words = "--model.kind constructed --model.num_bits 2 --optim.num_steps 0 --max-position 16"
    code, out, err = pcore("train", *SHORT, *words.split(), "--out", tmp_path / "m.pt")
    assert (code, err) == (0, "")
    num_parameters = sum(p.numel() for p in make_addition(2, num_ids=16).parameters())
    assert f" {num_parameters:,} parameters" in out
    rates = {line.split()[1]: line.split()[2] for line in out.splitlines() if " of 10" in line}
    assert rates == {"1": "100", "2": "100", "3": "0", "4": "0", "5": "0"}  # P = 2: to 2 digits


def test_an_interrupted_training_goes_on_to_the_same_weights(trained, pcore, monkeypatch):
    file, _ = trained
    words = ("train", *SHORT, "--out", "again.pt")
    show = train.ProgressLine.show

    def interrupt_at_7(self, report):
        show(self, report)
        if report.step == 7:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(train.ProgressLine, "show", interrupt_at_7)
        code, out, _ = pcore(*words)
    assert code == 130
    assert "stopped at step 7" in out
    assert "run the same command to resume" in out
    assert sorted(os.listdir()) == ["again.state.pt", "m.pt"]

    code, out, _ = pcore(*words)
    assert code == 0
    assert "resuming at step 7" in out
    whole, resumed = (torch.load(f, weights_only=True)["model"] for f in (file, "again.pt"))
    assert all(torch.equal(w, resumed[n]) for n, w in whole.items())


def test_a_state_of_another_trial_is_not_overwritten(pcore, tmp_path):
    state = tmp_path / "m.state.pt"
    state.write_text("precious")
    code, _, err = pcore("train", *SHORT, "--out", tmp_path / "m.pt")
    assert code == 2
    assert "damaged or belongs to another trial" in err
    assert state.read_text() == "precious"


def test_a_model_of_another_trial_is_not_overwritten(trained, pcore):
    before = trained[0].read_bytes()
    code, _, err = pcore("train", *SHORT, "--out", "m.pt", "--seed", 3)
    assert (code, trained[0].read_bytes()) == (2, before)
    assert "m.pt is the model of another trial: choose another file or remove it" in err


def test_divergence_is_a_sentence_and_exit_code_1(pcore, tmp_path):
    words = ("--learning-rate", "1000", "--weight-decay", "1000", "--out", tmp_path / "m.pt")
    code, _, err = pcore("train", *SHORT, *words)
    assert (code, err.count("\n")) == (1, 1)
    assert "training loss is nan" in err


def test_a_terminal_gets_one_changing_line(pcore, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr(train, "SECONDS_BETWEEN_LINES", 0.0)
    _, out, _ = pcore("train", *SHORT, "--out", tmp_path / "m.pt")
    assert out.count("\rstep") == 20

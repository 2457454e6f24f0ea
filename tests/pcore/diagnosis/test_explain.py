"""`pcore attention`, `ablate` and `explain`: what they print is what they count; probes."""

import json
import sys

import pytest
import torch
from torch.nn import functional as F

from pcore.cli import main
from pcore.config import override
from pcore.diagnosis.ablation import ablate, silenced
from pcore.diagnosis.attention import average_attention
from pcore.diagnosis.explanation import align_columns
from pcore.diagnosis.failures import analyse_failures
from pcore.diagnosis.probes import (
    NEVER,
    OFTEN,
    RARELY,
    count_verdict_changes,
    count_visits,
    grade_visits,
    table_similarity,
)
from pcore.evaluation.evaluate import evaluate
from pcore.evaluation.predict import predict_targets
from pcore.evaluation.test_sets import evaluation_ids, make_test_set
from pcore.model.checkpoint import load_model, save_model
from pcore.model.transformer import make_model


@pytest.fixture
def save(tmp_path, tiny_config):
    """Write an untrained model of a changed configuration: its file."""

    def run(changes=None, name="m.pt"):
        config = override(tiny_config, changes or {})
        file = tmp_path / name
        save_model(file, config, make_model(config).state_dict(), policy="last", step=0)
        return file

    return run


@pytest.fixture
def pcore(capsys):
    """Run a command line: (exit code, standard output, standard error)."""

    def run(*words):
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


# Commands -------------------------------------------------------------------------------------


def test_attention_prints_two_numbers_for_every_head_and_the_baseline(save, pcore, tmp_path):
    file, out = save(), tmp_path / "map.json"
    code, text, err = pcore("attention", file, "--length", 4, "--examples", 50, "--out", out)
    assert (code, err) == (0, "")
    found = average_attention(*load_model(file), 4, 50)
    rows = {line.split()[0]: line.split() for line in text.splitlines() if line.strip()}
    names = ("1.1", "1.2", "2.1", "2.2")
    assert set(names) | {"even"} <= set(rows)
    for name, head in zip(names, found.heads, strict=True):
        following, same = head.likenesses
        assert rows[name][5:] == [
            f"{number:.3f}"
            for like in (following, same)
            for number in (like.mass, like.mass_beyond_bos, like.overlap, like.mass_at_stop)
        ]
    assert rows["even"][2] == f"{found.even[0].mass:.3f}"
    written = json.loads(out.read_text())
    torch.testing.assert_close(torch.tensor(written["weights"]), found.weights)
    assert written["labels"] == list(found.labels)


def test_a_model_without_coupled_ids_is_told_so(save, pcore):
    file = save({"position.encoding": "none"})
    for command in ("attention", "explain"):
        code, text, err = pcore(command, file, "--length", 3, "--examples", 20)
        assert (code, err) == (0, "")
        assert "this model has no coupled IDs" in text
        assert "even" not in text.split()
    assert "position IDs do nothing in this model" in text


def test_ablate_prints_evaluation_without_every_part(save, pcore):
    code, text, err = pcore("ablate", save(), "--length", 2, "--examples", 40)
    assert (code, err) == (0, "")
    parts = [line.split("  ")[1] for line in text.splitlines()[1:]]
    assert parts == [
        "the whole model",
        *(
            f"without layer {layer}{part}"
            for layer in (1, 2)
            for part in (", head 1", ", head 2", ", attention", ", feed-forward", "")
        ),
    ]


def test_explain_prints_what_the_diagnosis_counts(save, pcore):
    file = save({"position.start": "random"})
    code, text, err = pcore("explain", file, "--examples", 40)
    assert (code, err) == (0, "")
    model, config = load_model(file)
    found = analyse_failures(model, override(config, {"eval.num_examples": 40}), 6)  # longest
    assert f"{found.num_missed_stop} do not stop, {found.num_early_stop} stop too early" in text
    assert "addition at length 6" in text
    assert "attention at lengths 3, 4, 6" in text
    assert "mean cosine of two rows by distance of their IDs: 1: " in text
    assert "share of training examples that use a position ID" in text
    assert "bf16 autocast changes the verdict of" in text


@pytest.mark.parametrize("command", ["attention", "ablate", "explain"])
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["no.pt"], "no checkpoint at no.pt"),
        (["{folder}"], "is a folder, not a checkpoint file; it holds m.pt"),
        (["{file}", "--length", "19"], "position.max_position=20 is below 21, which addition at"),
        (["{file}", "--length", "0"], "--length 0 is below 1"),
        (["{file}", "--examples", "0"], "--examples 0 is below 1"),
        (["{file}", "--device", "toaster"], "device 'toaster' is not available here"),
        ([], "CHECKPOINT"),
    ],
    ids=str,
)
def test_what_cannot_be_asked_is_refused_in_one_sentence(save, pcore, command, words, message):
    file = save()
    words = [word.format(file=file, folder=file.parent) for word in words]
    code, out, err = pcore(command, *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_help_of_the_commands_needs_no_torch(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pcore.cli.inspection", None)
    for command in ("attention", "ablate", "explain"):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        assert "default: the longest" in capsys.readouterr().out.replace("\n", " ")


def test_columns_are_aligned_to_the_right():
    assert align_columns([["a", "long"], ["bcd", "1"]]) == ["  a  long", "bcd     1"]


# Ablation -------------------------------------------------------------------------------------


def test_a_silenced_head_adds_nothing_and_the_model_is_whole_again(tiny_config):
    model = make_model(tiny_config)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    batch = make_test_set(tiny_config, 3)
    rows = list(ablate(model, batch, tiny_config))
    assert all(torch.equal(weight, before[n]) for n, weight in model.state_dict().items())
    assert rows[0].counts == evaluate(model, batch, tiny_config)
    by_part = {(row.part, row.layer, row.head): row.counts.loss_sum for row in rows}
    assert len(by_part) == 1 + 2 * (2 + 3)
    for (part, layer, head), loss in by_part.items():
        if part != "head":
            continue
        values = before[f"blocks.{layer}.attention.v"].clone()  # no values, no output
        values[head * 8 : (head + 1) * 8] = 0
        model.load_state_dict(before | {f"blocks.{layer}.attention.v": values})
        assert evaluate(model, batch, tiny_config).loss_sum == pytest.approx(loss, rel=1e-5)


def test_weights_come_back_after_an_error(tiny_config):
    weight = make_model(tiny_config).blocks[0].attention.o
    before = weight.clone()

    def fail():
        with silenced(weight.detach()[:, :3]):
            assert not weight[:, :3].any()
            assert torch.equal(weight[:, 3:], before[:, 3:])
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert torch.equal(weight, before)


# Probes ---------------------------------------------------------------------------------------


def test_rows_of_one_rotation_have_the_cosine_of_its_frequencies(tiny_config):
    config = override(tiny_config, {"position.table_init": "rotation"})
    (cosines,) = table_similarity(make_model(config))
    frequencies = (torch.arange(8) + 0.5) * torch.pi / 8
    expected = [float((d * frequencies).cos().mean()) for d in range(20)]
    assert cosines == pytest.approx(expected, abs=1e-5)


def test_every_table_is_measured_without_its_row_for_no_id(tiny_config):
    changes = {"task.name": "minesweeper", "position.level_tables": "separate"}
    model = make_model(override(tiny_config, changes))
    table = model.encoding.table.detach()
    found = table_similarity(model)
    assert [len(cosines) for cosines in found] == [20, 20]
    for first, cosines in zip((0, 21), found, strict=True):
        rows = table[first + 1 : first + 21]
        pairs = [F.cosine_similarity(rows[i], rows[i + 5], dim=0) for i in range(15)]
        assert cosines[5] == pytest.approx(float(torch.stack(pairs).mean()), abs=1e-6)
        assert cosines[0] == pytest.approx(1)
    assert table_similarity(make_model(override(tiny_config, {"position.encoding": "none"}))) == ()


def test_visits_follow_the_trained_lengths_and_the_start(tiny_config):
    one_length = {"data.min_length": 2, "data.max_length": 2, "position.max_position": 10}
    fixed = count_visits(override(tiny_config, one_length | {"position.start": "fixed"}))
    assert fixed[0].tolist() == [0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0]  # relative IDs 0-3, start 1
    ring = count_visits(override(tiny_config, one_length | {"position.start": "wrapped"}))[0]
    assert ring[1:].tolist() == pytest.approx([0.4] * 10, abs=0.03)
    random = count_visits(override(tiny_config, one_length | {"position.start": "random"}))[0]
    expected = [n / 7 for n in (1, 2, 3, 4, 4, 4, 4, 3, 2, 1)]  # starts 1-7
    assert random[1:].tolist() == pytest.approx(expected, abs=0.03)
    assert grade_visits(random[None])[0, 1:].tolist() == [RARELY] + [OFTEN] * 8 + [RARELY]
    assert grade_visits(fixed)[0, 5:].tolist() == [NEVER] * 6
    assert count_visits(override(tiny_config, {"position.encoding": "none"})) is None


def test_verdicts_that_hang_on_precision_are_counted(tiny_config):
    config = override(tiny_config, {"eval.num_examples": 200})
    model = make_model(config)
    batch = make_test_set(config, 1)
    ids = evaluation_ids(batch, config)
    full = predict_targets(model, batch, ids, config).wrong.any(dim=1)
    half = predict_targets(model, batch, ids, config, torch.bfloat16).wrong.any(dim=1)
    expected = (int((~full & half).sum()), int((full & ~half).sum()))
    assert count_verdict_changes(model, config, 1) == expected
    assert count_verdict_changes(model, config, 1, torch.float32) == (0, 0)


def test_autocast_reaches_the_predictions(tiny_config):
    config = override(tiny_config, {"eval.num_examples": 300})
    model, batch = make_model(config), make_test_set(config, 6)
    ids = evaluation_ids(batch, config)
    full = predict_targets(model, batch, ids, config).predicted
    half = predict_targets(model, batch, ids, config, torch.bfloat16).predicted
    assert 0 < int((full != half).sum()) < full.numel() // 10

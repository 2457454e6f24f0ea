"""Ablation zeroes what it says and leaves the model whole; visits and precision are counted."""

import pytest
import torch

from pcore.config import override
from pcore.diagnosis.ablation import ablate, silenced
from pcore.diagnosis.probes import (
    NEVER,
    OFTEN,
    RARELY,
    count_verdict_changes,
    count_visits,
    grade_visits,
)
from pcore.evaluation.evaluate import evaluate
from pcore.evaluation.predict import predict_targets
from pcore.evaluation.test_sets import evaluation_ids, make_test_set
from pcore.model.transformer import make_model

# Ablation -------------------------------------------------------------------------------------


def test_a_silenced_head_adds_nothing_and_the_model_is_whole_again(tiny_config):
    model = make_model(tiny_config)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    batch = make_test_set(tiny_config, 3)
    rows = list(ablate(model, batch, tiny_config))
    assert all(torch.equal(weight, before[n]) for n, weight in model.state_dict().items())
    assert rows[0].counts == evaluate(model, batch, tiny_config)
    by_component = {(row.component, row.layer, row.head): row.counts.loss_sum for row in rows}
    assert len(by_component) == 1 + 2 * (2 + 3)
    for (component, layer, head), loss in by_component.items():
        if component != "head":
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

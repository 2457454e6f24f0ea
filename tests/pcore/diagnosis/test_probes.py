"""Visits of position IDs, and verdicts that hang on precision, are counted."""

import pytest
import torch

from pcore.config import override
from pcore.diagnosis.probes import (
    NEVER,
    OFTEN,
    RARELY,
    count_verdict_changes,
    count_visits,
    grade_visits,
)
from pcore.evaluation.predict import predict_targets
from pcore.evaluation.test_sets import evaluation_ids, make_test_set
from pcore.model.transformer import make_model


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

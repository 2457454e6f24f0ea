"""Verdicts that hang on precision are counted."""

import torch

from pcore.config import override
from pcore.diagnosis.precision import count_verdict_changes
from pcore.evaluation import evaluation_ids, make_test_set, predict_targets
from pcore.model import make_model


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

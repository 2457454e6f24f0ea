"""The benchmark of the GPU runs: here on the CPU with a tiny trial, without its limits."""

import pytest
import torch

from pcore import training
from pcore.config import override
from tests.benchmarks import gpu

pytestmark = pytest.mark.slow  # minutes together


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(gpu, "ROUNDS", 1)
    monkeypatch.setattr(training, "BACKEND", "eager")
    torch.compiler.reset()
    training.compile_loss.cache_clear()


def test_every_way_to_train_is_measured(tiny_config, capsys):
    config = override(tiny_config, {"eval.checkpoints": "last,best"})
    assert gpu.measure_headline(config, "cpu", num_steps=2)
    told = capsys.readouterr().out
    for name in gpu.WAYS:
        assert f"{name}: training" in told
    assert "headline run: 4 checks of candidates" in told


def test_curves_are_those_of_the_same_data(tiny_config, monkeypatch):
    assert gpu.compare_curves(tiny_config, "cpu", num_steps=8)
    monkeypatch.setattr(gpu, "LOSS_DIFFERENCE", 0.0)
    assert not gpu.compare_curves(tiny_config, "cpu", num_steps=8), "those of bf16 are others"

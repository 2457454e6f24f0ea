"""Limits of training on a GPU: `pytest -m benchmark -s tests/benchmarks/test_gpu_speed.py`.

Without pytest: `python -m tests.benchmarks.gpu`, which also says what is measured and how.
"""

import pytest
import torch

from tests.benchmarks import gpu

pytestmark = [
    pytest.mark.benchmark,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]


def test_the_headline_run_takes_at_most_six_minutes(record):
    assert 0 < gpu.measure_headline(record, gpu.headline()) <= gpu.HEADLINE_MINUTES


def test_steps_do_not_wait_for_the_gpu(record):
    assert gpu.measure_waiting(record, gpu.headline())


def test_loss_curves_of_bf16_compiled_and_float32_plain(record):
    """A table to look at: the limit only says that both learn the same thing."""
    assert gpu.compare_curves(record, gpu.headline()) < 0.1

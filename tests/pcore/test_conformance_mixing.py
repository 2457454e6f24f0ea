"""The checks of attention and mixers pass for all that is shipped and find planted faults."""

import re
import sys
from pathlib import Path

import jaxtyping
import pytest
import torch
from torch import nn

from pcore.conformance import Check, check_attention, check_mixer
from pcore.model.mixing import ATTENTIONS, MIXERS, Attention, GatedLinear, Mixer, Softmax

HERE = __name__
DOCUMENT = Path(__file__).parents[2] / "docs" / "models.md"


@pytest.fixture(autouse=True, scope="module")
def unchecked_shapes():
    """Shapes are checked where the model is tested; here it takes twice as long."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def failures(checks: list[Check]) -> dict[str, str]:
    return {check.name: check.detail for check in checks if not check.passed}


@pytest.mark.parametrize("name", ATTENTIONS)
def test_every_attention_conforms(name):
    checks = check_attention(name)
    assert not failures(checks)
    assert len(checks) == 12


@pytest.mark.parametrize("name", MIXERS)
def test_every_mixer_conforms(name):
    assert not failures(check_mixer(name))


def test_the_mixer_of_the_documents_conforms(tmp_path, monkeypatch):
    *_, block = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), flags=re.DOTALL)
    (tmp_path / "my_mixers.py").write_text(block)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert not failures(check_mixer("my_mixers:Mean"))


class SeesTheFuture(Attention):
    def forward(self, scores, visible, queries):
        return scores.softmax(dim=3)


class SaysSeparable(Softmax):
    """Sharper, the more queries there are."""

    def forward(self, scores, visible, queries):
        return super().forward(scores * scores.shape[2] / 14, visible, queries)


class SaysStackable(Softmax):
    def forward(self, scores, visible, queries):
        return super().forward(scores if scores.max() < 9 else scores / 2, visible, queries)


class DeadParameter(Softmax):
    def __init__(self, config, layer, rng):
        super().__init__(config, layer, rng)
        self.unused = nn.Parameter(torch.ones(3))


class Cubic(Softmax):
    """Compares all keys of a query with each other."""

    def forward(self, scores, visible, queries):
        pairs = scores.unsqueeze(4) - scores.unsqueeze(3)
        return super().forward(scores + 0 * pairs.mean(dim=4), visible, queries)


class Forgets(GatedLinear):
    """Its state is lost between two steps of decoding."""

    def step(self, x, ids, encoding, past):
        return super().step(x, ids, encoding, None)


class SeesPadding(Mixer):
    def mix(self, x, ids, encoding):
        return x.cumsum(dim=1) / x.shape[1]


@pytest.mark.parametrize(
    ("cls", "rule"),
    [
        (SeesTheFuture, "causality"),
        (SaysSeparable, "rows cut = rows padded"),
        (SaysStackable, "stacked = alone"),
        (DeadParameter, "gradient reaches parameters"),
        (Cubic, "work grows as attention's"),
        (Forgets, "cached = uncached decoding"),
        (SeesPadding, "padding invariance"),
    ],
)
def test_a_planted_fault_is_found(cls, rule):
    check = check_attention if issubclass(cls, Attention) else check_mixer
    assert rule in failures(check(f"{HERE}:{cls.__name__}"))


@pytest.mark.parametrize("name", ["entmx", f"{HERE}:SeesPadding", "no.module:X"])
def test_a_name_that_is_no_attention_is_one_failed_check(name):
    (check,) = check_attention(name)
    assert not check.passed
    assert check.detail.startswith("ValueError: ")

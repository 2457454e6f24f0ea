"""The checks of attention and mixers pass for all that is shipped and find planted faults."""

import re
import sys
from pathlib import Path

import jaxtyping
import pytest
import torch
from torch import nn

from pcore.conformance import Check, check_attention, check_mixer
from pcore.mixing import ATTENTIONS, Attention, GatedLinear, Mixer, Softmax
from pcore.model import MIXERS

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
    assert len(checks) == 10


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


class MasksFirst(Attention):
    """What is masked does not stay so: tanh of minus infinity is -1."""

    def forward(self, scores, visible, queries):
        return scores.masked_fill(~visible, -torch.inf).tanh().softmax(dim=3)


class OverQueries(Attention):
    def forward(self, scores, visible, queries):
        return scores.masked_fill(~visible, -torch.inf).softmax(dim=2)


class InvertedMask(Attention):
    def forward(self, scores, visible, queries):
        return scores.masked_fill(visible, -torch.inf).softmax(dim=3)


class Exponents(Attention):
    """Shares of sums of exponentials, which overflow or vanish."""

    def forward(self, scores, visible, queries):
        weights = (scores * visible).exp() * visible
        return weights / weights.sum(dim=3, keepdim=True)


class ManyPerHead(Attention):
    def forward(self, scores, visible, queries):
        return scores.unsqueeze(4).softmax(dim=3)


class LooseTensor(Softmax):
    """A cap per head that nobody trains."""

    def __init__(self, config, layer, rng):
        super().__init__(config, layer, rng)
        self.cap = torch.full((config.num_heads, 1, 1), 10.0)

    def forward(self, scores, visible, queries):
        return super().forward(self.cap * (scores / self.cap).tanh(), visible, queries)


class SaysSeparable(Softmax):
    """Sharper, the longer the longest row of a batch is."""

    def forward(self, scores, visible, queries):
        return super().forward(scores * scores.shape[3] / 14, visible, queries)


class DeadParameter(Softmax):
    def __init__(self, config, layer, rng):
        super().__init__(config, layer, rng)
        self.unused = nn.Parameter(torch.ones(3))


class Forgets(GatedLinear):
    """Its state is lost between two steps of decoding."""

    def step(self, x, ids, encoding, past):
        return super().step(x, ids, encoding, None)


class SeesPadding(Mixer):
    def mix(self, x, ids, encoding):
        return x.cumsum(dim=1) / x.shape[1]


MASK_LAST = "change scores first, mask last, and"


@pytest.mark.parametrize(
    ("cls", "rule", "why"),
    [
        (SeesTheFuture, "weights", "a key that must not be seen gets the weight 0."),
        (MasksFirst, "weights", "a key that must not be seen gets the weight 0."),
        (InvertedMask, "weights", f"weights are not finite: {MASK_LAST} normalise over"),
        (OverQueries, "weights", f"a query sees the other queries ({MASK_LAST}"),
        (ManyPerHead, "weights", "forward returned (3, 2, 7, 7, 1), expected B H R S = (3, 2, 7,"),
        (Exponents, "weights", "weights are not finite where all scores are near 100"),
        (LooseTensor, "gradient reaches parameters", "cap is a plain tensor, neither trained nor"),
        (SaysSeparable, "rows cut = rows padded", "rows cut at their own length"),
        (DeadParameter, "gradient reaches parameters", "no gradient reaches"),
        (Forgets, "cached = uncached decoding", "decoding with a cache"),
        (SeesPadding, "padding invariance", "1 PAD on the right act"),
    ],
)
def test_a_planted_fault_is_found_and_the_report_says_what_to_change(cls, rule, why):
    check = check_attention if issubclass(cls, Attention) else check_mixer
    assert failures(check(f"{HERE}:{cls.__name__}"))[rule].startswith(why)


@pytest.mark.parametrize("name", ["entmx", f"{HERE}:SeesPadding", "no.module:X"])
def test_a_name_that_is_no_attention_is_one_failed_check(name):
    (check,) = check_attention(name)
    assert not check.passed
    assert check.detail.startswith("ValueError: ")

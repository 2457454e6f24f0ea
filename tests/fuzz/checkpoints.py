"""Checkpoints as they may arrive: flipped bits, cut short, pickles, other tensors or settings."""

import io
import pickle
import random
from collections.abc import Sequence
from typing import Any

import torch
from hypothesis import strategies as st

from pcore.config import TrialConfig, flatten
from tests.support.damage import KINDS

SEEDS = st.integers(0, 2**24 - 1)  # of larger numbers Hypothesis draws small ones most often
VALUES = (
    *(None, True, -1, 0, 1, 3, 10**6, 10**12, 10**30, 1.5, float("nan"), float("inf"), [], [1], {}),
    *("", "x", "9-5", "1-999999999", "os:abort", "none", "addition", b"x", "\n"),
)


class _Call:
    """A pickle that would call something."""

    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("called",)


@st.composite
def damaged(draw: st.DrawFn, changes: Sequence[Any], whole: bytes, own: bytes) -> bytes:
    """A file with damaged bytes or one of these changes, made of a good one or (rarely) of one of
    own code.
    """
    rng = random.Random(draw(SEEDS))
    change = draw(st.sampled_from((*KINDS, *changes)))
    return change(own if rng.random() < 0.05 else whole, rng)


def save_again(data: bytes, _: random.Random) -> bytes:
    """What torch writes of the same contents."""
    return _save(_load(data))


def change_setting(data: bytes, rng: random.Random) -> bytes:
    """Fields of the configuration with other values, missing or unknown."""
    payload = _load(data)
    config = payload["config"]
    for _ in range(rng.choice((1, 1, 2))):
        name = rng.choice([*config, *flatten(TrialConfig()), "model.depth", "task.colour", ""])
        if rng.random() < 0.15:
            config.pop(name, None)
        else:
            config[name] = rng.choice(VALUES)
    if rng.random() < 0.1:
        payload["config"] = rng.choice(({}, [], None, "text", {1: 2}, {"task.name": None}))
    return _save(payload)


def change_tensor(data: bytes, rng: random.Random) -> bytes:
    """Weights of another shape, type or name, not finite, or no weights at all."""
    payload = _load(data)
    model = payload["model"]
    name = rng.choice(list(model))
    w = model[name]
    model[name] = rng.choice(
        (
            *(torch.full_like(w, value) for value in (float("nan"), float("inf"))),
            *(torch.zeros(3, 3), torch.zeros(0), torch.ones((1,) * 30), w.double() * 1e300),
            *(w.long(), w.to(torch.complex64), w.to_sparse(), w.half()),
            *(w.new_zeros(()).expand(w.shape), None, [1.0], "text"),
        )
    )
    if rng.random() < 0.2:
        payload["model"] = rng.choice(({}, [], None, {"x": w}, {1: w}, w, list(model.items())))
    return _save(payload)


def replace(data: bytes, rng: random.Random) -> bytes:
    """Something else in the form of a file of torch, or of none."""
    payload = _load(data)
    others = ({}, [], None, 3, payload["model"], [payload], {"config": payload}, _Call())
    pickles = map(pickle.dumps, (_Call(), payload["config"]))
    return rng.choice((b"", b"PK\x03\x04", *pickles, *map(_save, others)))


CHANGES = (change_setting, change_tensor, replace)


def _load(data: bytes) -> dict[str, Any]:
    return torch.load(io.BytesIO(data), weights_only=True)


def _save(payload: Any) -> bytes:
    out = io.BytesIO()
    torch.save(payload, out)
    return out.getvalue()

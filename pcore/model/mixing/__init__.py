"""How tokens mix: from scores to weights (`ATTENTIONS`), or whole sublayers (`MIXERS`).

To use your own, name a subclass of `Attention` (`model.attention=package.module:Class`) or `Mixer`
(`model.mixer=package.module:Class`); `pcore check-attention` and `pcore check-mixer` check it.
"""

from pcore.config import ModelConfig
from pcore.model.mixing.attentions import (
    ATTENTIONS,
    Contextual,
    Entmax,
    LearnedScale,
    Softmax,
    StickBreaking,
    find_attention,
)
from pcore.model.mixing.base import Attention, Mixer, Part, State, make_weight, take
from pcore.model.mixing.gated_linear import GatedLinear
from pcore.model.mixing.self_attention import SelfAttention
from pcore.registry import resolve

MIXERS: dict[str, type[Mixer]] = {"attention": SelfAttention, "gated-linear": GatedLinear}


def find_mixer(name: str) -> type[Mixer]:
    """The class of an entry of `model.mixer`. Raises ValueError if there is none."""
    return resolve(name, MIXERS, "mixer")


def mixing_parts(config: ModelConfig) -> dict[str, type[Part]]:
    """The mixers by setting, and the attention if one of them uses it."""
    parts: dict[str, type[Part]] = {f"model.mixer={n}": find_mixer(n) for n in config.mixer}
    if any(issubclass(part, SelfAttention) for part in parts.values()):
        parts[f"model.attention={config.attention}"] = find_attention(config.attention)
    return parts


__all__ = [
    "ATTENTIONS",
    "MIXERS",
    "Attention",
    "Contextual",
    "Entmax",
    "GatedLinear",
    "LearnedScale",
    "Mixer",
    "Part",
    "SelfAttention",
    "Softmax",
    "State",
    "StickBreaking",
    "find_attention",
    "find_mixer",
    "make_weight",
    "mixing_parts",
    "take",
]

"""Encodings that rotate queries and keys."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pcore.config import ModelConfig, PositionConfig
from pcore.encodings.base import Encoding
from pcore.encodings.embeddings import make_frequencies


class Rotary(Encoding):
    """RoPE (arXiv 2104.09864): interleaved pairs over the full head width, in every head and layer.

    With coupled IDs this is coupled RoPE. One level only: a sum of angles over levels would mix
    them up. Scores depend on differences of IDs, whatever their sign.
    """

    uses_ids = True
    at_test = "angles follow the IDs without limit; id_scale_max acts in training only"
    frequencies: Tensor

    def __init__(
        self, position: PositionConfig, model: ModelConfig, num_levels: int, rng: torch.Generator
    ):
        super().__init__(position, model, num_levels, rng)
        frequencies = make_frequencies(model.d_head, position.rotary_base)
        self.register_buffer("frequencies", frequencies, persistent=False)

    @classmethod
    def check(cls, position: PositionConfig, model: ModelConfig, num_levels: int) -> None:
        if num_levels != 1:
            raise ValueError(
                "position.encoding=rotary takes one level of IDs, "
                f"position.ids={position.ids} has {num_levels} here: "
                "use position.ids=sequential or an encoding that sums levels"
            )
        if model.d_head % 2:
            raise ValueError(
                f"position.encoding=rotary needs an even model.d_head, got {model.d_head}"
            )

    def rotate(
        self, x: Float[Tensor, "B H T K"], ids: Int[Tensor, "B T P"], layer: int
    ) -> Float[Tensor, "B H T K"]:
        del layer
        angles = ids[:, None, :, :1] * self.frequencies  # (B, 1, T, K/2)
        turns = torch.polar(torch.ones_like(angles), angles)
        pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
        return torch.view_as_real(pairs * turns).flatten(-2).to(x.dtype)

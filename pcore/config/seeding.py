"""Named, independent random generators, so that one kind of randomness never affects another.

`seed` decides the initial weights; `data_seed` decides the training examples, their order and their
starts; evaluation sets depend on neither. Each (purpose, seed) pair gets its own generator, seeded
from a hash of both.
"""

from __future__ import annotations

import hashlib

from pcore import lazy_torch as torch


def derive_seed(purpose: str, *keys: object) -> int:
    """A 63-bit seed from a purpose and any printable keys.

    Equal arguments give equal seeds on every machine.
    """
    text = "\x1f".join([purpose, *map(str, keys)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def make_generator(
    purpose: str, *keys: object, device: str | torch.device = "cpu"
) -> torch.Generator:
    """A torch generator on `device` whose stream depends on the purpose and the keys alone."""
    return torch.Generator(device=device).manual_seed(derive_seed(purpose, *keys))

"""How position IDs act in the model (`ENCODINGS`), and how they are drawn (`position_ids`).

`embeddings` holds those that act at the input, `attention` those that act in attention.

To use your own, name a subclass of `Encoding` as `package.module:Class`; `pcore check-encoding
package.module:Class` checks it.
"""

from pcore.encodings.attention import ALiBi, Fire, Rotary, T5Bias
from pcore.encodings.base import Encoding, NoPE
from pcore.encodings.embeddings import Learned, Mixture, Residues, Sinusoidal, make_table
from pcore.registry import resolve

ENCODINGS: dict[str, type[Encoding]] = {
    "none": NoPE,
    "learned": Learned,
    "mixture": Mixture,
    "residues": Residues,
    "sinusoidal": Sinusoidal,
    "rotary": Rotary,
    "alibi": ALiBi,
    "t5": T5Bias,
    "fire": Fire,
}


def find_encoding(name: str) -> type[Encoding]:
    """The class that `name` stands for. Raises ValueError if there is none of that name."""
    return resolve(name, ENCODINGS, "encoding")


__all__ = [
    "ENCODINGS",
    "ALiBi",
    "Encoding",
    "Fire",
    "Learned",
    "Mixture",
    "NoPE",
    "Residues",
    "Rotary",
    "Sinusoidal",
    "T5Bias",
    "find_encoding",
    "make_table",
]

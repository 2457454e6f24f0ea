"""Vocabulary: the symbols of a task and their integer tokens.

Token 0 is always PAD. Text is a string in which every symbol is one character, or a list of
symbols.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

PAD, PAD_TOKEN = "_", 0
DIGITS = "0123456789"
BOUNDARY = "$"  # BOS and EOS share this symbol, except in minesweeper
MAX_SYMBOLS = 256  # tokens fit in a byte


@dataclass(frozen=True, slots=True)
class Vocab:
    """An ordered set of symbols; the token of a symbol is its index. `symbols[0]` is PAD."""

    symbols: tuple[str, ...]
    index: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self):
        assert self.symbols[0] == PAD
        assert len(self.symbols) <= MAX_SYMBOLS
        assert len(set(self.symbols)) == len(self.symbols)
        object.__setattr__(self, "index", {s: i for i, s in enumerate(self.symbols)})

    def __len__(self) -> int:
        return len(self.symbols)

    def __hash__(self) -> int:
        return hash(self.symbols)

    def encode(self, text: Iterable[str]) -> list[int]:
        """Tokens of the symbols in `text`. Raises ValueError for a symbol that is not known."""
        try:
            return [self.index[s] for s in text]
        except KeyError as error:
            known = " ".join(self.symbols[1:])
            raise ValueError(
                f"symbol {error.args[0]!r} is not in the vocabulary: {known}"
            ) from None

    def decode(self, tokens: Iterable[int]) -> list[str]:
        """Symbols of `tokens`."""
        return [self.symbols[t] for t in tokens]


def make_vocab(symbols: Iterable[str]) -> Vocab:
    """A vocabulary of PAD followed by `symbols` in their order."""
    return Vocab((PAD, *symbols))

"""Minesweeper generator: from the mines of a board to the numbers on its cells. Two levels of IDs.

Source: Cho et al., Position Coupling (arXiv 2405.20671), section on two-dimensional tasks. The
query is the board row by row, `M` a mine and `E` an empty cell; the response has `M` for a mine and
else the number of mines among the 8 neighbours. Level x counts columns, level y counts rows:

    EME/EEE    tok  ^ E M E E E E = 1 M 1 1 1 1 $        (rows are typed with `/` between them,
               x    . 1 2 3 1 2 3 0 1 2 3 1 2 3 .         which is not a token)
               y    . 1 1 1 2 2 2 0 1 1 1 2 2 2 .

BOS `^` and EOS `$` differ here, unlike in all other tasks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pcore import lazy_torch as torch
from pcore.tasks.base import Contents, Layout, Symbol, Task
from pcore.tasks.digits import draw_integers, index_mask
from pcore.vocab import BOUNDARY, DIGITS, Vocab, make_vocab

if TYPE_CHECKING:
    from jaxtyping import Bool, Int
    from torch import Tensor

MINE_DENSITY = (0.1, 0.25)  # the probability of a mine, uniform in this range per board


@dataclass(frozen=True, kw_only=True)
class Minesweeper(Task):
    """Numbers of a minesweeper board. Sizes: height and width, independent in training.

    A test board is a square unless a second length (its width) is asked for.
    """

    size_names: ClassVar[tuple[str, ...]] = ("height", "width")

    @property
    def vocab(self) -> Vocab:
        return make_vocab((*DIGITS[:9], "M", "E", "=", "^", BOUNDARY))

    @property
    def bos(self) -> str:
        return "^"

    @property
    def levels(self) -> tuple[str, ...]:
        return ("column", "row")

    def draw_sizes(
        self, count: int, low: int, high: int, rng: torch.Generator
    ) -> Int[Tensor, "B S"]:
        return draw_integers(low, high, (count, 2), rng)

    def sizes_at(self, length: int, second: int | None = None) -> tuple[int, ...]:
        return (length, second or length)

    def default_second(self, length: int) -> int | None:
        return length

    def trained_seconds(self, low: int, high: int) -> range:
        return range(low, high + 1)

    # Contents: one field per row of cells, index = column; field 2y is row y of the query and
    # field 2y + 1 row y of the response, so that no field depends on the height.

    def draw(self, sizes: Int[Tensor, "B S"], rng: torch.Generator) -> Contents:
        height, width = sizes.amax(dim=0).tolist()
        low, high = MINE_DENSITY
        unit = torch.rand(len(sizes), height * width + 1, generator=rng, device=rng.device)
        density = low + (high - low) * unit[:, 0, None, None]
        mines = unit[:, 1:].view(-1, height, width) < density
        rows, columns = index_mask(sizes[:, 0], height), index_mask(sizes[:, 1], width)
        return self._contents(mines & rows.unsqueeze(2) & columns.unsqueeze(1), sizes)

    def parse(self, query: str) -> Contents:
        rows = query.strip().split("/")
        if set("".join(rows)) - {"M", "E"}:
            raise ValueError(f"a board consists of M and E, with '/' between rows, got {query!r}")
        if not rows[0] or len({len(row) for row in rows}) > 1:
            raise ValueError(f"the rows of a board must be equally long and not empty: {query!r}")
        mines = torch.tensor([[[cell == "M" for cell in row] for row in rows]])
        return self._contents(mines, torch.tensor([[len(rows), len(rows[0])]]))

    def _contents(self, mines: Bool[Tensor, "B Y X"], sizes: Int[Tensor, "B S"]) -> Contents:
        from torch.nn.functional import pad

        batch, height, width = mines.shape
        vocab = self.vocab
        around = pad(mines.to(torch.uint8), (1, 1, 1, 1))
        around = around[:, :-2] + around[:, 1:-1] + around[:, 2:]
        around = around[:, :, :-2] + around[:, :, 1:-1] + around[:, :, 2:]  # a mine counts itself
        mine, empty = vocab.index["M"], vocab.index["E"]
        query = torch.full_like(around, empty).masked_fill_(mines, mine)
        response = (around + vocab.index["0"]).masked_fill_(mines, mine)
        symbols = torch.stack([query, response], dim=2)
        return Contents(symbols.view(batch, 2 * height, width), sizes)

    def layout(self, shape: tuple[int, ...]) -> Layout:
        height, width = shape
        layout = Layout()
        for is_response in (False, True):
            for y in range(height):
                for x in range(width):
                    layout.add(Symbol(2 * y + is_response, x), x + 1, y + 1)
            if not is_response:
                layout.add("=", 0, 0)
                layout.end_query()
        return layout

"""Commands: translating a small language whose clauses are reordered (ours, in the manner of SCAN).

A command has L clauses of two words, a verb (walk, run, jump, look) and a modifier (left, right,
twice), joined by `and` or `after`; all words are uniform and L is the length. The response is two
actions for every clause: `walk left` is LTURN WALK, `jump twice` is JUMP JUMP. Commands are read
from the left: `X and c` does X and then c, `X after c` does c and then X. So the clauses that
follow `after` come first, the last of them foremost, then the first clause, then those that follow
`and`.

SCAN (Lake and Baroni, arXiv 1711.00350) has at most one connective per command and responses of
any length; here all clauses have one length, so that each has a slot in the response, and
there can be many.

    coupling=straight    tok  $ jump twice after walk left = LTURN WALK JUMP JUMP $
                         rel  .  1    2     3     4    5   0   1     2    4    5  .
    coupling=both_ways   L1   .  1    2     3     4    5   0   1     2    4    5  .
                         L2   .  1    2     3     4    5   3   4     5    1    2  .

Why these two. Clause k (from 0) has the IDs 3k (the connective before it), 3k + 1 and 3k + 2; `=`
takes the 3k of the clause that the first slot is coupled with. `straight` couples clause k with the
actions of slot k, which is right if every connective is `and`. `both_ways` adds a second level that
couples it with slot L - 1 - k, which is right if every connective is `after`: every slot is shown
both candidates. Neither can express the truth for a mixed command, where the slot of a clause
depends on the connectives to both its sides, hence on the contents. IDs that followed the
connectives would solve the reordering for the model, which is the very thing to be learned. Nor do
they say that words and actions are swapped within a clause (`walk left`, LTURN WALK) for some
modifiers and not for others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from pcore import lazy_torch as torch
from pcore.tasks.base import Contents, Layout, Symbol, Task
from pcore.tasks.digits import draw_integers, index_mask
from pcore.vocab import BOUNDARY, Vocab, make_vocab

if TYPE_CHECKING:
    from jaxtyping import Int, Int64
    from torch import Tensor

VERBS = ("walk", "run", "jump", "look")
MODIFIERS = ("left", "right", "twice")
CONNECTIVES = ("and", "after")
ACTIONS = ("WALK", "RUN", "JUMP", "LOOK", "LTURN", "RTURN")  # the verbs', then left and right


@dataclass(frozen=True, kw_only=True)
class Commands(Task):
    """Commands to actions.

    coupling: straight = clause k with slot k; both_ways = also, on a second level, with the slot
        that mirrors it.
    """

    coupling: Literal["straight", "both_ways"] = "straight"

    size_names: ClassVar[tuple[str, ...]] = ("clauses",)
    separator: ClassVar[str] = " "

    @property
    def levels(self) -> tuple[str, ...]:
        return ("straight", "mirrored") if self.coupling == "both_ways" else ("straight",)

    @property
    def vocab(self) -> Vocab:
        return make_vocab((*VERBS, *MODIFIERS, *CONNECTIVES, *ACTIONS, "=", BOUNDARY))

    # Contents: by clause, field 0 the connective before it, 1 the verb, 2 the modifier; by slot of
    # the response, fields 3 and 4 the two actions.

    def draw(self, sizes: Int[Tensor, "B S"], rng: torch.Generator) -> Contents:
        shape = (len(sizes), int(sizes.max()))
        verbs = draw_integers(0, len(VERBS) - 1, shape, rng)
        modifiers = draw_integers(0, len(MODIFIERS) - 1, shape, rng)
        after = draw_integers(0, 1, shape, rng)
        return self._contents(verbs, modifiers, after, sizes)

    def parse(self, query: str) -> Contents:
        words = query.split()
        kinds = (VERBS, MODIFIERS, CONNECTIVES)
        for index, word in enumerate(words):
            if word not in kinds[index % 3]:
                known = ", ".join(kinds[index % 3])
                raise ValueError(f"word {index + 1} of {query!r} must be one of: {known}")
        if len(words) % 3 != 2:
            raise ValueError(
                "a command is clauses of a verb and a modifier, joined by 'and' or 'after', "
                f"like 'jump twice after walk left', got {query!r}"
            )
        verbs = torch.tensor([[VERBS.index(word) for word in words[::3]]])
        modifiers = torch.tensor([[MODIFIERS.index(word) for word in words[1::3]]])
        after = torch.tensor([[0, *(CONNECTIVES.index(word) for word in words[2::3])]])
        return self._contents(verbs, modifiers, after, torch.tensor([[verbs.shape[1]]]))

    def _contents(
        self,
        verbs: Int64[Tensor, "B W"],
        modifiers: Int64[Tensor, "B W"],
        after: Int64[Tensor, "B W"],
        sizes: Int[Tensor, "B S"],
    ) -> Contents:
        """Indices of words by clause to symbols; after: 1 for a clause that follows `after`."""
        index = self.vocab.index
        twice = modifiers == MODIFIERS.index("twice")
        actions = verbs + index[ACTIONS[0]]
        turns = modifiers + index["LTURN"]
        slots = _slots(after, sizes)
        symbols = [
            after + index[CONNECTIVES[0]],
            verbs + index[VERBS[0]],
            modifiers + index[MODIFIERS[0]],
            torch.zeros_like(verbs).scatter_(1, slots, torch.where(twice, actions, turns)),
            torch.zeros_like(verbs).scatter_(1, slots, actions),
        ]
        return Contents(torch.stack(symbols, dim=1).to(torch.uint8), sizes)

    def layout(self, shape: tuple[int, ...]) -> Layout:
        (length,) = shape
        layout = Layout()
        both = self.num_levels
        for k in range(length):
            if k:
                layout.add(Symbol(0, k), *(3 * k,) * both)
            layout.add(Symbol(1, k), *(3 * k + 1,) * both)
            layout.add(Symbol(2, k), *(3 * k + 2,) * both)
        layout.add("=", *(0, 3 * (length - 1))[:both])
        layout.end_query()
        for slot in range(length):
            straight, mirrored = 3 * slot, 3 * (length - 1 - slot)
            layout.add(Symbol(3, slot), *(straight + 1, mirrored + 1)[:both])
            layout.add(Symbol(4, slot), *(straight + 2, mirrored + 2)[:both])
        return layout


def _slots(after: Int64[Tensor, "B W"], sizes: Int[Tensor, "B S"]) -> Int64[Tensor, "B W"]:
    """The slot of each clause in the response: a permutation of 0 ... W - 1.

    A clause that follows `after` comes before all to its left, so it has as many clauses before it
    as there are `after` to its right. Any other has all `after` clauses before it and the others to
    its left. Absent clauses come last.
    """
    after = after * index_mask(sizes[:, 0], after.shape[1])
    after[:, 0] = 0
    num_after = after.cumsum(dim=1)
    total = num_after[:, -1:]
    others = (1 - after).cumsum(dim=1)
    return torch.where(after.bool(), total - num_after, total + others - 1)

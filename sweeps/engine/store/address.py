"""What a trial is called: the first letters of its id, or its place in a sweep, as in

    depth_ablation/coupling, 2 layers/seed 1
    depth_ablation [paper]/NoPE, 3 layers/seed 1, data seed 0

The scale is needed where a sweep has trials of that name at several, the data seed where seeds are
crossed, and no seed where a cell has one trial.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pcore.registry import nearest
from sweeps.engine.store.store import Store

SEEDS = re.compile(r"seed (\d+)(?:, data seed (\d+))?")
HEAD = re.compile(r"(.*?)(?: ?\[(smoke|laptop|paper)\])?", re.DOTALL)
SHOWN = 5  # candidates that a refusal lists


class TrialAddress(NamedTuple):
    """A trial of a cell of a sweep, and what it is called."""

    sweep: str
    scale: str
    cell: str
    seed: int
    data_seed: int
    trial_id: str

    @property
    def text(self) -> str:
        """The whole address."""
        seeds = f"seed {self.seed}, data seed {self.data_seed}"
        return f"{self.sweep} [{self.scale}]/{self.cell}/{seeds}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """What a reference to a trial or a cell names; None: left out."""

    sweep: str
    scale: str | None = None
    cell: str | None = None
    seed: int | None = None
    data_seed: int | None = None


def parse_address(text: str) -> Address:
    """SWEEP [SCALE]/CELL/seed N, data seed M, of which SWEEP alone is needed."""
    head, *rest = text.strip().split("/")
    found = HEAD.fullmatch(head.strip())
    assert found is not None
    seed = data_seed = None
    if len(rest) > 1 and (seeds := SEEDS.fullmatch(rest[-1].strip())):
        rest.pop()
        seed, data_seed = int(seeds[1]), int(seeds[2]) if seeds[2] else None
    cell = "/".join(rest).strip() or None
    return Address(sweep=found[1], scale=found[2], cell=cell, seed=seed, data_seed=data_seed)


def stored_addresses(store: Store) -> list[TrialAddress]:
    """Every trial of every view of a store, those of searches too."""
    return [
        TrialAddress(*(row[name] for name in TrialAddress._fields))
        for views in (store.views(), store.views("searches"))
        for view in views.values()
        for row in view.select(list(TrialAddress._fields)).to_pylist()
    ]


def find_trial(text: str, stored: Sequence[TrialAddress], others: Iterable[str] = ()) -> str:
    """The id of the one trial that is called so, among these and `others`, ids in no sweep.

    Raises ValueError in one sentence if it is several or, with the nearest right name, none.
    """
    if "/" in text:
        return _find_stored(parse_address(text), stored)
    known = {*others, *(one.trial_id for one in stored)}
    found = sorted(name for name in known if name.startswith(text))
    if not found:
        forms = "a trial is the first letters of an id, or SWEEP/CELL/seed N"
        raise ValueError(f"no trial begins with {text!r}; {forms}")
    if len(found) > 1:
        raise ValueError(f"{len(found)} trials begin with {text!r}: {_few(found)}")
    return found[0]


def _find_stored(asked: Address, stored: Sequence[TrialAddress]) -> str:
    """Narrow down, from the sweep to the data seed; what was not said must not matter."""
    where = ""
    for name in ("sweep", "scale", "cell", "seed", "data_seed"):
        value, kind = getattr(asked, name), name.replace("_", " ")
        if value is None:
            continue
        known = sorted({str(getattr(one, name)) for one in stored})
        stored = [one for one in stored if getattr(one, name) == value]
        if not stored:
            raise ValueError(f"no {kind} {str(value)!r}{where}.{nearest(str(value), known)}")
        where = f" of {asked.cell!r} in {asked.sweep}" if name == "cell" else where
        where = where or f" in {value}"
    if len(found := {one.trial_id: one.text for one in stored}) > 1:
        raise ValueError(f"{len(found)} trials{where}, name one: {_few(list(found.values()))}")
    return stored[0].trial_id


def _few(names: Sequence[str]) -> str:
    return "; ".join(names[:SHOWN]) + ("; ..." if len(names) > SHOWN else "")

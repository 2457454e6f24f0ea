"""Sample problems right and wrong, from the `samples` that evaluation rows may carry."""

import json
from dataclasses import dataclass

import pandas as pd

MOST = 2  # of each kind per cell


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One test example. predicted ends with the first wrong symbol; seed: of the run."""

    query: str
    answer: str
    predicted: str
    is_right: bool
    seed: int

    @property
    def num_agreeing(self) -> int:
        """Characters up to the first wrong one."""
        if self.is_right:
            return len(self.predicted)
        pairs = zip(self.answer, self.predicted, strict=False)
        return next((i for i, (a, b) in enumerate(pairs) if a != b), len(self.answer))


@dataclass(frozen=True, kw_only=True, slots=True)
class Shelf:
    """What the runs of a cell answered at one length."""

    cell: str
    length: int
    second_length: int | None
    samples: tuple[Sample, ...]


def pick_samples(evaluation: pd.DataFrame) -> list[Shelf]:
    """A few examples of each cell at the longest tested length, right ones first.

    evaluation: the rows of one checkpoint policy. Diverged runs answer nothing.
    """
    if "samples" not in evaluation:
        return []
    rows = evaluation[(evaluation["status"] == "ok") & evaluation["samples"].notna()]
    shelves = []
    for cell, own in rows.groupby("cell", sort=False):
        own = own.sort_values(["length", "second_length"], na_position="first", kind="stable")
        length, second = own["length"].iloc[-1], own["second_length"].iloc[-1]
        same = own["second_length"].isna() if pd.isna(second) else own["second_length"] == second
        found = _unpack(own[(own["length"] == length) & same])
        right = [sample for sample in found if sample.is_right][:MOST]
        wrong = [sample for sample in found if not sample.is_right][:MOST]
        if right or wrong:
            shelves.append(
                Shelf(
                    cell=str(cell),
                    length=int(length),
                    second_length=None if pd.isna(second) else int(second),
                    samples=(*right, *wrong),
                )
            )
    return shelves


def _unpack(rows: pd.DataFrame) -> list[Sample]:
    """All samples of these rows, equal ones of several runs once."""
    found: dict[tuple[str, str], Sample] = {}
    for seed, text in zip(rows["seed"], rows["samples"], strict=True):
        for row in json.loads(text):
            sample = Sample(
                query=row["query"],
                answer=row["answer"],
                predicted=row["predicted"],
                is_right=row["right"],
                seed=int(seed),
            )
            found.setdefault((sample.query, sample.predicted), sample)
    return list(found.values())

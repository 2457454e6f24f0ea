"""Sample problems, right and wrong, from the `samples` of evaluation rows."""

import json
from dataclasses import dataclass

import pandas as pd

MOST = 2  # right ones per cell, and as many wrong ones


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelAnswer:
    """What a model answered to one test example."""

    query: str
    answer: str  # the right one
    predicted: str  # ends with the first wrong symbol
    is_right: bool
    seed: int  # of the run

    @property
    def num_agreeing(self) -> int:
        """Characters up to the first wrong one."""
        if self.is_right:
            return len(self.predicted)
        pairs = zip(self.answer, self.predicted, strict=False)
        return next((i for i, (a, b) in enumerate(pairs) if a != b), len(self.answer))


@dataclass(frozen=True, kw_only=True, slots=True)
class CellAnswers:
    """Examples of what the runs of a cell answered at one length."""

    cell: str
    length: int
    second_length: int | None
    samples: tuple[ModelAnswer, ...]


def pick_samples(evaluation: pd.DataFrame) -> list[CellAnswers]:
    """A few examples of each cell at the longest tested length, right ones first.

    evaluation: the rows of one checkpoint policy. Diverged runs answer nothing.
    """
    if "samples" not in evaluation:
        return []
    rows = evaluation[(evaluation["status"] == "ok") & evaluation["samples"].notna()]
    answers = []
    for cell, runs in rows.groupby("cell", sort=False):
        runs = runs.sort_values(["length", "second_length"], na_position="first", kind="stable")
        length, second = runs["length"].iloc[-1], runs["second_length"].iloc[-1]
        same = runs["second_length"].isna() if pd.isna(second) else runs["second_length"] == second
        samples = _unpack(runs[(runs["length"] == length) & same])
        right = [sample for sample in samples if sample.is_right][:MOST]
        wrong = [sample for sample in samples if not sample.is_right][:MOST]
        if right or wrong:
            answers.append(
                CellAnswers(
                    cell=str(cell),
                    length=int(length),
                    second_length=None if pd.isna(second) else int(second),
                    samples=(*right, *wrong),
                )
            )
    return answers


def _unpack(rows: pd.DataFrame) -> list[ModelAnswer]:
    """All samples of these rows; equal ones of several runs count once."""
    unique: dict[tuple[str, str], ModelAnswer] = {}
    for seed, text in zip(rows["seed"], rows["samples"], strict=True):
        for row in json.loads(text):
            sample = ModelAnswer(
                query=row["query"],
                answer=row["answer"],
                predicted=row["predicted"],
                is_right=row["right"],
                seed=int(seed),
            )
            unique.setdefault((sample.query, sample.predicted), sample)
    return list(unique.values())

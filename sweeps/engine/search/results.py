"""The scores of a search, and its winners.

Only the near range counts: search trials have no test lengths, and rows of any other range are
never looked at.

Score, smaller is better, averaged over near lengths: (1 - exact match) + (1 - token accuracy). The
second part tells configurations apart while exact match is 0 everywhere. The loss cannot do that
beyond the trained lengths: a model that begins to fit grows confident there, often wrongly, and the
best fit can have a worse near loss than one that was stopped early. The loss only breaks ties.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sweeps.engine.spec import Scale
from sweeps.engine.store.folder import Folder, parse_json
from sweeps.engine.store.score import near_score
from sweeps.engine.store.store import Store

WORST = 2.0  # the score of a diverged training: nothing right


@dataclass(frozen=True, kw_only=True, slots=True)
class Scored:
    """What the store says of a trial. loss: nats per token of the near range."""

    status: str
    score: float = WORST
    loss: float = math.inf
    error: str = ""

    @property
    def finished(self) -> bool:
        return self.status in ("ok", "diverged")


def read_scores(store: Store, trial_ids: Iterable[str]) -> dict[str, Scored]:
    """What the store knows of these trials, by id."""
    names = list(trial_ids)
    heads = store.load(names, record="trial", columns=["trial_id", "status", "error"]).to_pylist()
    near: dict[str, list[Mapping[str, Any]]] = {
        head["trial_id"]: [] for head in heads if head["status"] == "ok"
    }
    counts = ["num_examples", "num_correct", "num_tokens", "num_correct_tokens", "loss_sum"]
    columns = ["trial_id", "checkpoint", "range", *counts]
    for row in store.load(near, record="evaluation", columns=columns).to_pylist():
        if row["range"] == "near" and row["checkpoint"] == "last":
            near[row["trial_id"]].append(row)
    return {
        head["trial_id"]: _score(near[head["trial_id"]])
        if head["status"] == "ok"
        else Scored(status=head["status"], error=head["error"] or "")
        for head in heads
    }


def _score(rows: Sequence[Mapping[str, Any]]) -> Scored:
    wrong = loss = 0.0
    for row in rows:
        wrong += near_score(row)
        loss += row["loss_sum"] / row["num_tokens"]
    return Scored(status="ok", score=wrong / len(rows), loss=loss / len(rows))


def write_best(
    results: str, name: str, scale: Scale, best: Mapping[str, Mapping[str, Any]]
) -> tuple[str, dict[str, int]]:
    """Keep the winners; the name of their file, and the configurations of each arm that those
    before them were chosen from.
    """
    folder, file = Folder(results), f"searches/{name}-{scale}.json"
    try:
        arms = parse_json(folder.read(file))
        before = {arm: int(arms[arm]["num_configurations"]) for arm in arms}
    except (FileNotFoundError, ValueError, LookupError, TypeError):
        before = {}
    folder.write(file, (json.dumps(best, indent=2) + "\n").encode())
    return file, before

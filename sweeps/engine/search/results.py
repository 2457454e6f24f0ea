"""The scores of a search, and its winners.

Only the near range counts: search trials have no test lengths, and rows of any other range are
never looked at.

Score, smaller is better, averaged over near lengths: (1 - exact match) + (1 - token accuracy). The
second part tells configurations apart while exact match is 0 everywhere. The loss cannot do that
beyond the trained lengths: a model that begins to fit grows confident there, often wrongly, and the
best fit can have a worse near loss than one that was stopped early. The loss only breaks ties.

To use the winners in a sweep (arms are labels and the fields they change):

    best = best_of("lr_search", scale)
    tuned = {label: fields | best.get(label, {}) for label, fields in own_arms.items()}
    cells = grid(addition(scale), arm=arms(tuned))
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pcore.config import OWN_CODE, unflatten
from sweeps.engine.spec import Scale
from sweeps.engine.store.folder import Folder, parse_json
from sweeps.engine.store.location import find_results
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


def write_best(results: str, name: str, scale: Scale, best: Mapping[str, Mapping[str, Any]]) -> str:
    """Keep the winners where `best_of` finds them; the name of the file in the results folder."""
    file = _best_file(name, scale)
    Folder(results).write(file, (json.dumps(best, indent=2) + "\n").encode())
    return file


def best_of(
    name: str, scale: Scale, results: str | Path | None = None
) -> dict[str, dict[str, Any]]:
    """The winning fields of a search by arm, to be merged into an arm's changes.

    results: the results folder (default: $PCORE_RESULTS, else ./results). Raises ValueError if the
    search was not run to its end there, or its file names own code that is not imported yet.
    """
    folder = find_results(str(results) if results is not None else None)
    file = _best_file(name, scale)
    try:
        winners = parse_json(Folder(folder).read(file))
        best = {
            str(label): {key: value for key, value in entry.items() if "." in key}
            for label, entry in winners.items()
        }
    except (ValueError, AttributeError) as error:
        path = Folder(folder).path(file)
        raise ValueError(f"{path} holds no winners of a search: {error}") from error
    except FileNotFoundError:
        raise ValueError(
            f"{folder} holds no result of the search {name!r} at scale {scale}. Run its script "
            f"first (--scale {scale} --results {folder}), or set PCORE_RESULTS to where it ran: "
            "best_of does not see --results"
        ) from None
    for changes in best.values():
        unflatten({k: v for k, v in changes.items() if k in OWN_CODE}, file=f"{folder}/{file}")
    return best


def _best_file(name: str, scale: Scale) -> str:
    return f"searches/{name}-{scale}.json"

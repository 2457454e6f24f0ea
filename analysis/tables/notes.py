"""The sentences under every table: what was measured, on what, by which code; what is missing."""

from collections.abc import Iterator

import pandas as pd

from analysis.load import COUNTED, Results, trained_ranges
from analysis.statistics import runs as statistics

POLICIES = {
    "last": "last = after the final step, no selection",
    "best": "best = least loss on held-out examples of the train range",
    "oracle": "ORACLE = least loss at the largest test length: leaks the test range, not a result",
}
LONGEST_ERROR = 100  # characters of an error text that a note shows


def describe(results: Results) -> Iterator[str]:
    """One note per line of text."""
    evaluation = results.evaluation
    policy = POLICIES.get(results.checkpoint, results.checkpoint)
    yield f"Scale: {results.scale}. Checkpoint: {policy}."
    yield f"EM: exact match in %, median over runs [interval]. {_describe_interval(evaluation)}"
    yield (
        "L95: largest tested length up to which the median EM stays above 95 % "
        "[interval; below 5 runs least–largest]; ≥: nothing longer was tested."
    )
    yield (
        "solved: runs with EM above 95 % [95 % Wilson interval]; worst: EM of the worst run; "
        "runs: counted/planned."
    )
    yield from _describe_ranges(results)
    yield from _describe_test_sets(evaluation)
    yield from _describe_stopping(results.trials)
    yield from _describe_code(results.trials)
    yield from _describe_losses(results.trials)


def _describe_interval(evaluation: pd.DataFrame) -> str:
    runs = evaluation[["cell", "trial_id", *statistics.SEEDS]].drop_duplicates()
    seeds = [group[statistics.SEEDS].to_numpy() for _, group in runs.groupby("cell")]
    kinds = {statistics.interval_kind(len(pairs), pairs) for pairs in seeds} - {"none"}
    meaning = {
        "range": f"worst–best run where fewer than {statistics.LEAST_BOOTSTRAP} runs count",
        "bootstrap": "95 % percentile bootstrap over runs",
        "crossed bootstrap": "95 % percentile bootstrap, model and data seeds drawn independently",
    }
    if not kinds:
        return "No interval: one run per cell."
    return f"Interval: {'; '.join(meaning[kind] for kind in sorted(kinds))}."


def _describe_ranges(results: Results) -> Iterator[str]:
    evaluation = results.evaluation
    trained = trained_ranges(results)
    spans = sorted(set(trained.values()))
    if len(spans) == 1:
        text = f"Trained on lengths {_span(*spans[0])} (train: EM over all of them, pooled)"
    else:
        text = "Trained lengths differ by cell (train: EM over all of them, pooled)"
    for name in ("test", "near"):
        lengths = sorted(evaluation.loc[evaluation["range"] == name, "length"].unique())
        if lengths:
            text += f"; {name} {_span(lengths[0], lengths[-1])}"
            text += " (for tuning; not a result)" if name == "near" else ""
    yield text + "."
    seconds = evaluation["second_length"].dropna()
    if seconds.nunique() > 1:
        span = _span(seconds.min(), seconds.max())
        yield f"Second lengths {span}: a length counts with its worst one."


def _describe_test_sets(evaluation: pd.DataFrame) -> Iterator[str]:
    if evaluation.empty:
        return
    sizes = evaluation["num_examples"]
    sets = evaluation.groupby(["length", "second_length"], dropna=False)["test_set"].nunique()
    text = f"{_span(sizes.min(), sizes.max())} test examples per length, {sets.sum()} test sets"
    if (sets == 1).all():
        yield f"{text}: at each length all runs answer the same examples (paired)."
    else:
        yield (
            f"{text}: NOT the same for all runs at {(sets > 1).sum()} of {len(sets)} lengths "
            "(another format or number of examples)."
        )


def _describe_stopping(trials: pd.DataFrame) -> Iterator[str]:
    error = trials["eval.stop_error"].max()
    if error > 0:
        yield (
            "NOT ALL EXAMPLES: lengths were left once EM was known to lie above or below 95 % "
            f"(eval.stop_error up to {error:g}), so EM there is rough; no result to publish."
        )


def _describe_code(trials: pd.DataFrame) -> Iterator[str]:
    ran = trials[trials["status"].isin(COUNTED)].drop_duplicates("trial_id")
    if ran.empty:
        return
    versions = ran.assign(
        code=ran["code_hash"].map(_short),
        commit=ran["git_commit"].map(_short)
        + ran["git_dirty"].map(lambda dirty: "-dirty" if dirty is True else ""),
    )
    groups = versions.groupby(["code", "commit"], sort=True)
    parts = [
        f"pcore {code}, commit {commit} ({len(rows)} trials)" for (code, commit), rows in groups
    ]
    differ = versions["code"].nunique() > 1
    mixture = f"MIXED, {versions['code'].nunique()} versions of pcore: " if differ else ""
    machines = sorted({f"{d} {t}" for d, t in zip(ran["device"], ran["dtype"], strict=True)})
    yield f"Code: {mixture}{'; '.join(parts)}. Device: {', '.join(machines)}."


def _describe_losses(trials: pd.DataFrame) -> Iterator[str]:
    """Planned trials that are not ok, by status and cell, with the first error text."""
    diverged = trials[trials["status"] == "diverged"]
    if len(diverged):
        yield f"Diverged, counted as EM 0 at every length: {_by_cell(diverged)}."
    for status, rows in trials[~trials["status"].isin(COUNTED)].groupby("status"):
        errors = rows["error"].dropna()
        lines = str(errors.iloc[0]).strip().splitlines() if len(errors) else []
        first = f" First: {lines[-1][:LONGEST_ERROR]}" if lines else ""
        yield f"Not counted, {status}: {_by_cell(rows)}.{first}"


def _by_cell(rows: pd.DataFrame) -> str:
    counts = rows.groupby("cell", sort=False).size()
    return ", ".join(f"{count} of {cell}" for cell, count in counts.items())


def _span(low: int, high: int) -> str:
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"


def _short(name: object) -> str:
    return str(name)[:8] if isinstance(name, str) and name else "unknown"

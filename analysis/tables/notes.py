"""The notes under every table: what was measured, on which data, by which code, what is missing."""

from collections.abc import Iterator, Sequence

import pandas as pd

from analysis.load import COUNTED, Results, trained_ranges
from analysis.statistics import runs as statistics
from analysis.statistics.intervals import Cover, Design, cover, shared_seeds
from analysis.statistics.training import judged_unlike_trained
from pcore.cli.text import plural
from sweeps.engine.store.sources import version_of

POLICIES = {
    "last": "last = after the final step, no selection",
    "best": "best = least loss on held-out examples of the train range",
    "oracle": "ORACLE = least loss at the largest test length: leaks the test range, not a result",
}
NEAR = "*"  # after an L95 in the near range
UNFITTED = "†"  # after the train EM of a cell that does not fit
SMOKE = " (shows that everything runs, not what is learned)"
LONGEST_ERROR = 100  # characters of an error text that a note shows
SIZES = ("num_layers", "num_heads", "d_model", "d_ff")
TRAINING = ("num_steps", "batch_size", "learning_rate")
MACHINE = ("device", "dtype", "cpu_model", "cpu_capability")


def describe(results: Results, columns: Sequence[str], has_unfitted: bool) -> Iterator[str]:
    """One note per line of text; columns: the notes on these; has_unfitted: a cell has the mark."""
    evaluation = results.evaluation
    policy = POLICIES.get(results.checkpoint, results.checkpoint)
    purpose = SMOKE if results.scale == "smoke" else ""
    yield f"Scale: {results.scale}{purpose}. Checkpoint: {policy}."
    trials = results.trials
    yield from _describe_model(trials[trials["model.kind"] != "constructed"])
    yield from columns
    yield from _describe_ranges(results)
    yield from _describe_test_sets(evaluation)
    yield from _describe_code(results.trials)
    yield from _describe_losses(results.trials)
    for cell, loss in judged_unlike_trained(results).iterrows():
        yield (
            f"JUDGED UNLIKE TRAINED, {cell}: at trained lengths its loss is {loss['judged']:.2g} "
            f"nats per target, {loss['judged'] / loss['trained']:.0f} times that of training. Its "
            "exact match says little about what it learned."
        )
    if has_unfitted:
        yield (
            f"{UNFITTED}: at most 95 % in the median on the trained lengths. Such a cell does not "
            "fit them, and its other numbers say nothing about length generalization."
        )


def _describe_model(trials: pd.DataFrame) -> Iterator[str]:
    """Size and training of the cells' models; from the least to the largest where they differ."""
    sizes = {name: trials[f"model.{name}"].dropna() for name in SIZES}
    training = {name: trials[f"optim.{name}"].dropna() for name in TRAINING}
    columns = sizes | training
    if any(column.empty for column in columns.values()):
        return
    shown = {name: span(column.min(), column.max()) for name, column in columns.items()}
    layers = "layer" if shown["num_layers"] == "1" else "layers"
    heads = "head" if shown["num_heads"] == "1" else "heads"
    differ = any(column.nunique() > 1 for column in columns.values())
    yield (
        f"Model: {shown['num_layers']} {layers}, {shown['num_heads']} {heads}, d_model "
        f"{shown['d_model']}, d_ff {shown['d_ff']}. Training: {shown['num_steps']} steps of "
        f"{shown['batch_size']} examples, learning rate {shown['learning_rate']}"
        f"{' (spans: the cells differ)' if differ else ''}."
    )


def describe_interval(evaluation: pd.DataFrame) -> str:
    """Between which runs the intervals lie, and how often such an interval holds the median."""
    runs = evaluation[["cell", "trial_id", *statistics.SEEDS]].drop_duplicates()
    seeds = [group[statistics.SEEDS].to_numpy() for _, group in runs.groupby("cell")]
    designs = {(len(pairs), shared_seeds(pairs)): pairs for pairs in seeds if len(pairs) > 1}
    if not designs:
        return "No interval: one run per cell." if seeds else "No runs."
    texts = [
        _describe_cover(num_runs, design, cover(num_runs, designs[num_runs, design]))
        for num_runs, design in sorted(designs, key=str)
    ]
    return f"Interval: {'; '.join(dict.fromkeys(texts))}."


def _describe_cover(num_runs: int, design: Design | None, chosen: Cover) -> str:
    last = num_runs + 1 - chosen.rank
    ends = f"{_ordinal(chosen.rank)} to {_ordinal(last)} of {num_runs} runs"
    if chosen.rank == 1:
        ends = f"worst–best of {num_runs} runs"
    if not design or chosen.if_data_seeds is None:
        return f"{ends}, covers the true median with probability {_share(chosen.coverage)} %"
    covered = f"covers the true median with probability {100 * chosen.coverage:.0f} %"  # simulated
    models = {seed for block in design for seed in block}
    between = "x" if num_runs == len(models) * len(design) else "and"
    return (
        f"{ends} ({len(models)} model {between} {len(design)} data seeds), {covered} if model "
        f"seeds, data seeds and the rest vary equally, {_share(chosen.if_data_seeds)} % if data "
        "seeds alone vary"
    )


def _ordinal(rank: int) -> str:
    """ "1st", "2nd", "11th"."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(rank % 10, "th")
    return f"{rank}{'th' if rank % 100 in (11, 12, 13) else ending}"


def _share(coverage: float) -> str:
    return f"{100 * coverage:.2f}".rstrip("0").rstrip(".")


def _describe_ranges(results: Results) -> Iterator[str]:
    evaluation = results.evaluation
    spans = sorted(set(trained_ranges(results).values()))
    has_seconds = statistics.has_second_lengths(evaluation)
    if not spans:
        return
    which = "the length" if has_seconds else "the longest"
    weighted = f"train: EM over these, weighted by how often each is {which} of an example"
    if results.trials["task.name"].str.contains(":", na=False).any():
        weighted += ", of own tasks evenly"
    weighted += ", second lengths pooled" if has_seconds else ""
    if len(spans) == 1:
        text = f"Trained on lengths {span(*spans[0])} ({weighted})"
    else:
        text = f"Trained lengths differ by cell ({weighted})"
    for name in ("test", "near"):
        lengths = sorted(evaluation.loc[evaluation["range"] == name, "length"].unique())
        if lengths:
            text += f"; {name} {span(lengths[0], lengths[-1])}"
            text += " (for tuning; not a result)" if name == "near" else ""
    yield text + "."
    if has_seconds:
        seconds = evaluation["second_length"]
        alike = statistics.share_second_lengths(evaluation)
        differ = "" if alike else ", and cells were tested at different ones: compare them by pairs"
        ends = span(seconds.min(), seconds.max())
        yield f"Second lengths {ends}: a length counts with its worst one{differ}."


def _describe_test_sets(evaluation: pd.DataFrame) -> Iterator[str]:
    if evaluation.empty:
        return
    sizes = evaluation["num_examples"]
    by_length = evaluation.groupby(["length", "second_length"], dropna=False)
    sets, asked = by_length["test_set"].nunique(), by_length["asked"].nunique()
    unit, units = "length", "lengths"
    if statistics.has_second_lengths(evaluation):
        unit, units = "pair of lengths", "pairs"
    text = f"{span(sizes.min(), sizes.max())} test examples per {unit}, {sets.sum()} test sets"
    if (sets == 1).all():
        yield f"{text}: at each {unit} all runs answer the same examples (paired)."
    elif (asked == 1).all():
        yield f"{text}: at each {unit} all runs answer the same questions, in several formats."
    else:
        yield (
            f"{text}: NOT the same for all runs at {(asked > 1).sum()} of {len(asked)} {units} "
            "(another task or number of examples)."
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
        f"pcore {code}, commit {commit} ({plural(len(rows), 'trial')})"
        for (code, commit), rows in groups
    ]
    different = ran["code_hash"].map(version_of, na_action="ignore").nunique()
    mixture = f"MIXED, {different} versions of pcore: " if different > 1 else ""
    kinds = ran[[name for name in MACHINE if name in ran]].drop_duplicates()
    machines = sorted({_machine(run) for _, run in kinds.iterrows()})
    yield f"Code: {mixture}{'; '.join(parts)}. Device: {', '.join(machines)}."


def _machine(run: pd.Series) -> str:
    """Device and number format, and the CPU of rows that say it."""
    text = f"{run['device']} {run['dtype']}"
    cpu = [run.get(name) for name in MACHINE[2:]]
    if run["device"] != "cpu" or not isinstance(cpu[0], str):
        return text
    return f"{text} ({', '.join(map(str, cpu))})"


def _describe_losses(trials: pd.DataFrame) -> Iterator[str]:
    """Planned trials that are not ok, by status and cell, with the first error text."""
    diverged = trials[trials["status"] == "diverged"]
    if len(diverged):
        yield f"Diverged, counted as EM 0 at every length: {by_cell(diverged)}."
    for status, rows in trials[~trials["status"].isin(COUNTED)].groupby("status"):
        errors = rows["error"].dropna()
        lines = str(errors.iloc[0]).strip().splitlines() if len(errors) else []
        first = f" First: {lines[-1][:LONGEST_ERROR]}" if lines else ""
        yield f"Not counted, {status}: {by_cell(rows)}.{first}"


def by_cell(rows: pd.DataFrame) -> str:
    """How many rows each cell has: "2 of rings, 1 of NoPE"."""
    counts = rows.groupby("cell", sort=False).size()
    return ", ".join(f"{count} of {cell}" for cell, count in counts.items())


def span(low: float, high: float) -> str:
    """From the least to the largest, once if they agree: "1–12", "24"."""
    return "–".join(dict.fromkeys(f"{end:,.10g}" for end in (low, high)))


def _short(name: object) -> str:
    return str(name)[:8] if isinstance(name, str) and name else "unknown"

"""results/published/README.md: how many trials of each sweep there are."""

from functools import cache
from pathlib import Path

from sweeps.engine.store.store import Store
from sweeps.tables import CORE
from tests.project.derived.rows import LAPTOP, REPLICATION, ROUNDING, TWICE_THE_STEPS, WORDS


@cache
def finished(store: Path) -> set[str]:
    rows = Store(store).load(record="trial", columns=["trial_id", "status"]).to_pylist()
    return {row["trial_id"] for row in rows if row["status"] in ("ok", "diverged")}


def counts(sweep: str, store: Path = LAPTOP) -> tuple[set[str], int]:
    """(finished trials, number of trials planned)."""
    view = {row["trial_id"] for row in Store(store).load_view(sweep, "laptop").to_pylist()}
    return view & finished(store), len(view)


def shared(sweep: str, other: str) -> str:
    return WORDS[len(counts(sweep)[0] & counts(other)[0])]


def core_and_probes() -> list[str]:
    sizes = {sweep: (len(counts(sweep)[0]), counts(sweep)[1]) for sweep in CORE}
    core = set[str]().union(*(counts(sweep)[0] for sweep in CORE))
    short = {sweep: size for sweep, size in sizes.items() if size[0] < size[1]}
    rest = "".join(f", {done} of {planned} of `{name}`" for name, (done, planned) in short.items())
    probes = set[str]().union(*(counts(s)[0] for s in ("theory_limits", "attention_probe")))
    found, planned = counts("found_coupling")
    assert len(found) == planned
    return [
        "the core set (`python -m sweeps run --for core --scale laptop`), "
        f"{len(core)} trials of {WORDS[len(CORE)]} ablations{rest};",
        f"{len(probes)} trials of two commits",
        f"{len(found)} trials, 36 of them by one launch",
        f"68 trials, {shared('mixer_ablation', 'theory_limits')} of them those of `theory_limits`;",
    ]


def beyond() -> list[str]:
    sizes = {
        sweep: (len(counts(sweep)[0]), counts(sweep)[1])
        for sweep in ("packing_ablation", "packed_tasks", "packed_train_length")
    }
    controls, tasks, lengths = sizes.values()
    first = len(counts("thousand_digits")[0])
    twice = WORDS[len(counts("twice_the_steps", TWICE_THE_STEPS)[0])]
    far = len(counts("ten_thousand_digits")[0])
    return [
        f"--executor inline`): {WORDS[first]} trials, one after another",
        f"{controls[0]} of {controls[1]} trials; {shared('packing_ablation', 'thousand_digits')} "
        "are those of `thousand_digits`",
        f"{tasks[0]} of {tasks[1]} trials, in several launches",
        f"{lengths[0]} trials, {shared('packed_train_length', 'thousand_digits')} of them those of "
        "`thousand_digits`",
        f"--executor inline`): {far} trials, two at a time",
        f"`twice_the_steps/`: {twice} trials of",
        f"`replication/`: {WORDS[len(counts('thousand_digits', REPLICATION)[0])]} trials of",
        f"`rounding/`: {WORDS[len(counts('thousand_digits', ROUNDING)[0])]} trials of",
    ]


CHECKS = (core_and_probes, beyond)

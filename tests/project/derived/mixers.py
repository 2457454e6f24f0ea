"""docs/results.md: other attention, loops and recurrence."""

from analysis.tables.sweep_tables import percent
from tests.project.derived.rows import SOLVED, WORDS, load, runs, worst_trained

NAMES = {"learned scale": "a learned scale", "sink": "a sink", "looped": "the loop"}


def named(arms: list[str]) -> list[str]:
    return [NAMES.get(arm, arm) for arm in arms]


def one_setting_for_all() -> list[str]:
    trials = load("mixer_ablation").trials
    trials = trials[~trials["cell"].str.startswith("reference") & (trials["status"] == "ok")]
    optim = [name for name in trials if name.startswith("optim.")]
    assert all(trials[name].nunique(dropna=False) == 1 for name in optim)
    assert (trials["model.num_layers"] * trials["model.num_loops"]).nunique() == 1
    return [
        "`python sweeps/mixer_ablation.py`: methods that are reported to help with length on their "
        "own ([models.md](models.md)), each with coupled IDs and without positions. "
        "All arms but the reference have the same steps, depth and optimiser settings; nothing was "
        "tuned for any of them, and their papers train on other tasks."
    ]


def one_setting_on_the_other_page() -> list[str]:
    assert one_setting_for_all()
    return [
        "`sweeps/mixer_ablation.py` compares all of them with position coupling, each with coupled "
        "IDs and without positions. Nothing was tuned for any arm; all but the reference share "
        "optimiser settings, steps and depth."
    ]


def without_positions() -> list[str]:
    at = runs("mixer_ablation")
    fits = (worst_trained("mixer_ablation") > SOLVED).groupby("cell")
    fitted, num_runs = fits.sum(), fits.size()
    nope = [cell for cell in load("mixer_ablation").cells if cell.startswith("NoPE")]
    arms = {cell.removeprefix("NoPE, "): (fitted[cell], num_runs[cell]) for cell in nope}
    whole = named([arm for arm, (fit, of) in arms.items() if fit == of])
    none = named([arm for arm, (fit, _) in arms.items() if not fit])
    some = [
        f"{arm} in {WORDS[fit]} of {WORDS[of]}"
        for arm, (fit, of) in zip(named(list(arms)), arms.values(), strict=True)
        if 0 < fit < of
    ]
    far = at.loc[nope]
    assert (far.loc[:, far.columns >= 17] == 0).all(axis=None)
    return [
        "**None replaces position coupling here.** Without positions no run gets a single sum of "
        f"17 digits or more right, and none more than {percent(far[14].max())} % of those of 14. "
        f"All runs with {' and with '.join(whole)} fit the trained lengths, those with "
        f"{', with '.join(some[:-1])} and with {some[-1]}; with {', '.join(none[:-1])} or "
        f"{none[-1]} none does. Tuning may change this."
    ]


def with_coupling() -> list[str]:
    at = runs("mixer_ablation")[18]
    cells = [cell for cell in load("mixer_ablation").cells if cell.startswith("coupling, ")]
    softmax, *others = (at[cell] for cell in cells)
    for other in others:
        assert other.max() > softmax.min(), "told apart"
        assert other.min() < softmax.max(), "told apart"
    first = at[at.index.get_level_values("seed") < 3]
    below = [cell for cell in cells if first[cell].max() < first[cells[0]].min()]
    assert len(below) == 2
    arms = ", ".join(
        f"{cell.removeprefix('coupling, ')} {percent(at[cell].min())} to {percent(at[cell].max())}"
        for cell in cells
    )
    return [
        "**With coupling, no arm can be told from softmax: runs differ as much as the arms.** "
        f"The {WORDS[len(softmax)]} runs of each get {arms} % of the sums of 18 digits right. With "
        f"three runs, {WORDS[len(below)]} arms lay below all of softmax; the fourth run of each "
        "did not."
    ]


CHECKS = (one_setting_for_all, without_positions, with_coupling)

"""docs/results.md: other attention, loops and recurrence."""

from itertools import combinations

from analysis.tables.sweep_tables import percent
from tests.project.derived.rows import SOLVED, WORDS, load, runs, worst_trained

ALIKE = ("softmax", "learned scale", "entmax", "sink", "contextual positions")
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
        f"{arm} in {WORDS[fit]} of {WORDS[of]}" for arm, (fit, of) in arms.items() if 0 < fit < of
    ]
    far = at.loc[nope]
    assert (far.loc[:, far.columns >= 16] == 0).all(axis=None)
    return [
        "**None replaces position coupling here.** Without positions no run gets a single sum of "
        f"16 digits or more right, and none more than {percent(far[14].max())} % of those of 14. "
        f"All runs with {' and with '.join(whole)} fit the trained lengths, those with "
        f"{' and with '.join(some)}; with {', '.join(none[:-1])} or {none[-1]} none does. Tuning "
        "may change this."
    ]


def with_coupling() -> list[str]:
    at = runs("mixer_ablation")[18]
    middle = at.groupby("cell").median()
    arms = {name: at[f"coupling, {name}"] for name in ALIKE}
    for one, other in combinations(arms.values(), 2):
        assert max(one.min(), other.min()) <= min(one.max(), other.max()), "told apart"
    first, *others, last = (
        f"{percent(middle[f'coupling, {name}'])}{' %' * (name == 'softmax')} with {text}"
        for name, text in zip(ALIKE, named(list(ALIKE)), strict=True)
    )
    softmax, scaled = arms["softmax"], arms["learned scale"]
    coupled = [cell for cell in middle.index if cell.startswith("coupling")]
    below = {cell for cell in coupled if at[cell].max() < softmax.min()}
    assert below == {"coupling, stick-breaking", "coupling, gated linear"}
    broken, linear = (at[f"coupling, {n}"].max() for n in ("stick-breaking", "gated linear"))
    return [
        f"**With coupling, {WORDS[len(arms)]} arms cannot be told apart: their runs differ as much "
        f"as the arms.** Medians at 18 digits are {first}, {', '.join(others)} and {last}, but "
        f"single runs get from {percent(softmax.min())} to {percent(softmax.max())} % with softmax "
        f"and from {percent(scaled.min())} to {percent(scaled.max())} % with a learned scale. "
        f"{WORDS[len(below)].capitalize()} arms lie below every run with softmax: at most "
        f"{percent(broken)} % with stick-breaking and {percent(linear)} with gated linear."
    ]


CHECKS = (one_setting_for_all, without_positions, with_coupling)

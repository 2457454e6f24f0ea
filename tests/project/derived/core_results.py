"""docs/results.md up to the mixers, and the replications."""

import re
from pathlib import Path

import pandas as pd

from analysis.statistics.mechanism import pattern_masses
from analysis.tables.sweep_tables import percent
from sweeps.commands.catalogue import find_sweep
from sweeps.engine.store.store import Store
from sweeps.tables import CORE
from tests.project.derived.rows import (
    LAPTOP,
    REPLICATION,
    ROUNDING,
    SOLVED,
    WORDS,
    load,
    medians,
    reach,
    runs,
    setting,
    whole,
    worst_trained,
)

PAGE = Path(__file__).parents[3] / "docs" / "results.md"


def the_core_set() -> list[str]:
    store = Store(LAPTOP)
    views = pd.concat(store.load_view(sweep, "laptop").to_pandas() for sweep in CORE)
    trials = store.load(list(views["trial_id"]), "trial", ["status", "host", "cpu_model"])
    rows = trials.to_pandas()
    configs = [cell.config for sweep in CORE for cell in find_sweep(sweep).cells("laptop")]
    assert {c.data.max_length for c in configs} == {6, 8, 10, 12}, "those of train_length_ablation"
    seeds = set(views["seed"])
    assert set(rows["host"]) == {"vm"}
    assert rows["cpu_model"].isna().all()
    assert load("thousand_digits").trials["cpu_model"].notna().all()
    return [
        f"The core set: {WORDS[len(CORE)]} ablations of addition, trained on 1-12 digits on CPU "
        f"cores (`python -m sweeps run --for core --scale laptop --seeds {len(seeds)}`).",
        "Then the theorem's model and the attention of trained ones (`python -m sweeps run "
        f"theory_limits attention_probe --seeds {len(setting('attention_probe', 'seed'))}`).",
        f"{WORDS[len(seeds)].capitalize()} seeds were trained on one virtual machine.",
        "These rows do not record which CPU computed them; new rows do.",
    ]


def base_cell_at_15() -> list[str]:
    two = runs("depth_ablation").loc["coupling, 2 layers"]
    low, high = sorted(two.loc[(seed, seed), 15] for seed in (0, 1))
    assert high == 1
    return [f"where the rows below have {percent(low)} and {whole(high)}."]


def stored_values_of_the_reruns() -> list[str]:
    """The first columns of the printout; its other columns are measurements of that day."""
    table, trials = runs("attention_probe"), load("attention_probe").trials
    block = PAGE.read_text().partition("    $ python -m sweeps replicate")[2].partition("\n\n**")[0]
    parts = re.split(r"\n    (?=num_heads)", block)[1:]
    passages = []
    for part in parts:
        cell, seed, data_seed = re.match(r"(\S+), seed (\d), data seed (\d)", part).groups()
        run = (cell, int(seed), int(data_seed))
        (trial,) = trials.query(f"cell == '{cell}' and seed == {seed}")["trial_id"]
        passages.append(f"{cell}, seed {seed}, data seed {data_seed} ({trial})")
        gaps = []
        for line in re.findall(r"(?:train|near|test) .*", part):
            kind, length, stored, again, points, others = line.split()
            assert float(length) in runs("attention_probe", kind).columns
            assert stored == percent(table.loc[run, int(length)])
            of_cell = 100 * table.loc[cell, int(length)]
            assert float(others) == round(of_cell.max() - of_cell.min(), 1)
            assert abs(float(points) - (float(again) - float(stored))) < 0.11
            gaps.append(abs(float(points)) > float(others))
        assert gaps
        passages.append(
            f"{' '.join(line.split())} {'beyond' if any(gaps) else 'within'} the spread"
        )
    shown, tested = len(gaps), len(table.columns)
    return [
        *passages,
        f"{WORDS[len(parts)].capitalize()} trials run again, with {WORDS[shown]} of "
        f"{'eleven' if tested == 11 else tested} lengths shown:",
    ]


def replication() -> list[str]:
    first, again = runs("thousand_digits"), runs("thousand_digits", store=REPLICATION)
    rounded = runs("thousand_digits", store=ROUNDING)
    seeds, others = (set(table.index.get_level_values("seed")) for table in (first, again))
    assert not seeds & others, "no seed is in both"
    lengths = (1, 12, 96, 200, 500, 1000, 2000, 3000)
    lines = [f"| | {' | '.join(f'{n:,}' for n in lengths)} |"]
    tables = {"as published": first, "other seeds": again, "another rounding": rounded}
    for name, table in tables.items():
        assert table[1000].median() >= 0.99, "the same verdict"
        assert table[500].min() >= 0.95, "the same verdict"
        for word, row in (("median", table.median()), ("worst", table.min())):
            shown = " | ".join(percent(row[n]) for n in lengths)
            lines.append(f"| {name}, {len(table)} runs: {word} | {shown} |")
    near, far = median_gaps(first, again)
    return [
        *lines,
        "**Packed rows and residue rings do replicate**",
        f"The same sweep with seeds from {min(others)} on, which nothing else used (rows in "
        "`results/published/replication`), gives the same verdict: the medians are "
        f"at most {near:.1f} points apart at every tested length up to 2,000 and {far:.1f} at "
        "3,000. Exact match in %:",
    ]


def median_gaps(first: pd.DataFrame, again: pd.DataFrame) -> tuple[float, float]:
    """Points between the medians: the largest up to 2,000 digits, and at 3,000."""
    gap = 100 * (first.median() - again.median()).abs()
    return gap[gap.index <= 2000].max(), gap[3000]


def other_rounding() -> list[str]:
    again = runs("thousand_digits", store=ROUNDING)
    assert set(load("thousand_digits", store=ROUNDING).trials["cpu_capability"]) == {"AVX2"}
    first = runs("thousand_digits")
    assert first.index.equals(again.index)
    near, far = median_gaps(first, again)
    gap = 100 * (first - again).abs().max()
    runs_near, runs_far = gap[gap.index <= 1000].max(), gap[gap.index > 1000].max()
    return [
        f"So do the same {WORDS[len(again)]} pairs of seeds under another rounding "
        f"(`ATEN_CPU_CAPABILITY=avx2 python -m sweeps replicate thousand_digits --trials "
        f"{len(again)}`, rows in `results/published/rounding`): the medians are at most "
        f"{near:.1f} points apart up to 2,000 digits and {far:.1f} at 3,000, single runs at most "
        f"{runs_near:.1f} up to 1,000 digits (at one digit) and {runs_far:.1f} beyond.",
    ]


def depth_on_trained_lengths() -> list[str]:
    train = runs("depth_ablation", "train")
    worst = train.min(axis=1)
    one, ape = worst[worst < 0.96].sort_index(ascending=True).items()
    assert one[0][0] == "coupling, 1 layer"
    assert ape[0][0] == "random-start APE, 3 layers"
    return [
        f"{(worst >= 0.96).sum()} of the {len(worst)} runs get 96 % or more right at each of "
        f"the trained lengths; one of coupling with one layer ({whole(one[1])} % at "
        f"{train.loc[one[0]].idxmin()} digits) and one of random-start APE ({whole(ape[1])} %) do "
        "not."
    ]


def plain_attention() -> list[str]:
    at_24 = medians("encoding_ablation", 24)
    sharp, plain = at_24["coupling"], at_24["coupling, plain attention"]
    rows = load("depth_ablation").trials.groupby("model.attention_scale")["cell"].unique()
    assert all(cell.startswith("coupling") for cell in rows["log-length"])
    assert not any(cell.startswith("coupling") for cell in rows["none"])
    assert set(
        load("encoding_ablation").trials.query("cell == 'coupling'")["model.num_layers"]
    ) == {3}
    return [
        "The coupling arms also have attention that stays sharp as sequences grow; with three "
        "layers and plain attention the median falls from "
        f"{whole(sharp)} to {whole(plain)} % at 24 digits."
    ]


def patterns_predict_nothing() -> list[str]:
    clear = pattern_masses(load("depth_ablation")).set_index(["cell", "seed", "data_seed"])
    table = clear.assign(reached=runs("depth_ablation")[24])
    assert len(table) == 9
    assert table["pattern"].rank().corr(table["reached"].rank()) < 0.3
    return [
        "How clearly a trained model shows both patterns does not predict how far it generalizes:"
    ]


def theorem_and_trained() -> list[str]:
    far = runs("theory_limits")[[20, 22, 24]]
    trained = far[~far.index.get_level_values("cell").str.startswith("theory")]
    assert (trained > 0.5).all(axis=None), "right on most sums"
    assert (trained < 1).all(axis=None), "no run on all of a length"
    exact = runs("theory_limits").loc[("theory, P=4, 14 digits", 0, 0)]
    assert (exact[exact.index <= 14] == 1).all()
    assert (exact[exact.index > 14] == 0).all()
    return [
        "It is exact up to its bound and not one digit beyond; the trained models are right on "
        "most sums of 20 to 24 digits, but no run is right on all 1,000 of a length:"
    ]


def attention_patterns() -> list[str]:
    shown = pattern_masses(load("attention_probe"))
    both = shown[shown["pattern"] >= 0.5].groupby("cell").size()
    total = (shown["cell"] == "num_heads=2").sum()
    assert "num_heads=1" not in both, "one head cannot hold both"
    trained, table = worst_trained("attention_probe"), runs("attention_probe")
    assert (trained > SOLVED).sum() == 1, "barely fit"
    longest = runs("attention_probe", "train").columns.max()
    assert table.apply(reach, axis=1).max() <= longest, "do not generalize"
    return [
        f"The setting of the paper's attention figure, trained on 1-{longest} digits. With two "
        f"heads, each takes one pattern of the theorem in {WORDS[both['num_heads=2']]} of "
        f"{WORDS[total]} runs; one head cannot hold both. With this size and number of steps the "
        "models barely fit, and do not generalize:"
    ]


CHECKS = (
    the_core_set,
    base_cell_at_15,
    stored_values_of_the_reruns,
    replication,
    other_rounding,
    depth_on_trained_lengths,
    plain_attention,
    patterns_predict_nothing,
    theorem_and_trained,
    attention_patterns,
)

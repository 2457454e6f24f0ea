"""docs/results.md up to the mixers, and the replications."""

import re
from pathlib import Path

import pandas as pd

from analysis.statistics.mechanism import pattern_masses
from analysis.tables.sweep_tables import percent
from pcore.cli.text import plural
from sweeps.commands.catalogue import find_sweep
from sweeps.engine.store.store import Store
from sweeps.tables import CORE
from tests.project.derived.front_page import UNCOUPLED
from tests.project.derived.rows import (
    LAPTOP,
    REPLICATION,
    ROUNDING,
    SOLVED,
    WORDS,
    ends,
    load,
    reach,
    runs,
    whole,
    worst_trained,
)

PAGE = Path(__file__).parents[3] / "docs" / "results.md"


def the_core_set() -> list[str]:
    store = Store(LAPTOP)
    views = pd.concat(store.load_view(sweep, "laptop").to_pandas() for sweep in CORE)
    used = pd.concat(
        store.load_view(sweep, scale).to_pandas()
        for sweep, scale in store.view_names()
        if sweep not in CORE
    )
    seeds, data_seeds = set(views["seed"]), set(views["data_seed"])
    assert not (seeds | data_seeds) & (set(used["seed"]) | set(used["data_seed"]))
    configs = [cell.config for sweep in CORE for cell in find_sweep(sweep).cells("laptop")]
    assert {c.data.max_length for c in configs} == {6, 8, 10, 12}, "those of train_length_ablation"
    with_ids = [c for c in configs if c.position.encoding != "none"]
    coupled = [c for c in with_ids if c.position.ids == "coupled"]
    packed = [c for c in configs if c.data.problems_per_row != (1,)]
    assert all(c in coupled for c in packed)
    assert len([c for c in coupled if c not in packed]) == 1, "a control"
    return [
        f"The core set: {WORDS[len(CORE)]} ablations of addition, trained on 1-12 digits on CPU "
        "cores (`python -m sweeps run --for core --scale laptop`), with "
        f"{WORDS[len(seeds)]} model seeds and {WORDS[len(data_seeds)]} data seeds from "
        f"{min(seeds)} on, which no other sweep has.",
        "In the core set coupled IDs come in packed rows (but for one control), the other methods "
        "have one problem per row",
    ]


def one_problem_per_row() -> list[str]:
    alone = runs("encoding_ablation").loc["coupling, 1 layer, one problem per row"]
    for sweep in ("theory_limits", "attention_probe"):
        assert load(sweep).trials["cpu_model"].isna().all()
        assert {c.config.data.problems_per_row for c in find_sweep(sweep).cells("laptop")} == {(1,)}
    assert load("depth_ablation").trials["cpu_model"].notna().all()
    return [
        "**With one problem per row single runs do not replicate.** In the control of the encoding "
        f"ablation the {WORDS[len(alone)]} runs get {ends(alone[36])} % of the sums of 36 digits "
        "right. The rows of the theorem's model and of attention, below, are such too, and do not "
        "record which CPU computed them; new rows do.",
    ]


def stored_values_of_the_reruns() -> list[str]:
    """The first columns of the printout; its other columns are measurements of that day."""
    table, trials = runs("attention_probe"), load("attention_probe").trials
    block = (
        PAGE.read_text().partition("    $ python -m sweeps replicate")[2].partition("\n\n## ")[0]
    )
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


def beyond(table: pd.DataFrame, least: int = 18) -> pd.DataFrame:
    """The lengths from `least` on."""
    return table[[length for length in table.columns if length >= least]]


def depth() -> list[str]:
    table = beyond(runs("depth_ablation"))
    longest = table.columns.max()
    one, two, three = (
        ends(table.loc[f"coupling, {plural(n, 'layer')}", longest]) for n in (1, 2, 3)
    )
    none = table.loc[UNCOUPLED].max(axis=None)
    return [
        f"At {longest} digits the runs of coupling get {one} % right with one layer, {two} % with "
        f"two and {three} % with three; the recipe was chosen with one layer. Those of NoPE, "
        f"random-start APE and RoPE get {percent(none)} % from {table.columns.min()} digits on.",
    ]


def fit() -> list[str]:
    train = runs("depth_ablation", "train").loc[UNCOUPLED]
    fitted = (train.min(axis=1) > SOLVED).groupby("cell").sum()
    planned = train.groupby("cell").size()
    (short,) = fitted[fitted < planned].index
    assert short == "random-start APE, 3 layers"
    return [
        f"All their runs fit the trained lengths but {WORDS[planned[short] - fitted[short]]} of "
        "random-start APE."
    ]


def heads() -> list[str]:
    table, train = beyond(runs("heads_ablation")), runs("heads_ablation", "train")
    one = train.loc["num_heads=1", 12]
    more = table.drop(index="num_heads=1", level="cell")
    assert worst_trained("heads_ablation").drop(index="num_heads=1", level="cell").min() > SOLVED
    return [
        f"One head does not fit: its runs get {ends(one)} % of the sums of 12 digits right. With "
        f"two, four and eight heads all {len(more)} runs get at least "
        f"{percent(more.min(axis=None))} % at every length from {table.columns.min()} to "
        f"{table.columns.max()} digits."
    ]


def table_size() -> list[str]:
    at = runs("max_position_ablation")
    sizes = [202, 300, 500, 1003]
    cells = [at.loc[f"max_position={size}"] for size in sizes]
    smallest, *larger = cells
    assert max(table[150].max() for table in cells[2:]) == 0
    nearly = min(table[96].min() for table in larger)
    return [
        "The larger the table, the shorter the reach: at 96 digits all runs of all sizes get at "
        f"least {percent(min(nearly, smallest[96].min()))} % right, at 150 digits those with 202 "
        f"and 300 rows at least {percent(min(table[150].min() for table in cells[:2]))} % and "
        "those with 500 and 1,003 none; at 200 digits those with 202 rows "
        f"{ends(smallest[200])} %, those with 300 rows {ends(larger[0][200])} %.",
    ]


def train_length() -> list[str]:
    at = runs("train_length_ablation")
    far = {n: at.loc[f"trained on 1-{n}", 200] for n in (6, 8, 10, 12)}
    six = at.loc["trained on 1-6", 96]
    reached = {n: reach(at.loc[f"trained on 1-{n}"].median()) for n in far}
    assert reached[8] < reached[6] < reached[10] <= reached[12]
    return [
        f"Trained on 1-6 digits, all runs get at least {percent(six.min())} % of the sums of 96 "
        "digits right, 16 times the trained length. Of those of 200 digits, runs trained on 1-6 "
        f"get {ends(far[6])} %, on 1-8 {ends(far[8])} %, on 1-10 {ends(far[10])} % and on 1-12 "
        f"{ends(far[12])} %. In the median 1-8 stays above 95 % up to {reached[8]} digits, less "
        f"far than 1-6 ({reached[6]}); we do not know why.",
    ]


def formats() -> list[str]:
    at = runs("format_ablation")
    good = at.loc[["padded, response reversed", "padded, all reversed"], 200]
    none, short = at.loc["padded, nothing reversed"], "not padded, response reversed"
    unpadded = at[at.index.get_level_values("cell").str.startswith("not padded")]
    assert unpadded[150].max() < 0.01, "nothing is left"
    return [
        "Padded and with a reversed response, the numbers reversed or not, all "
        f"{WORDS[len(good)]} runs get at least {percent(good.min())} % of the sums of 200 digits "
        f"right. With nothing reversed they get {ends(none[12])} % at 12 digits, and "
        f"{ends(none[200])} % at 200. Without padding nothing is left at 150 digits; with a "
        f"reversed response it is {ends(at.loc[short, 12])} % at 12 and {ends(at.loc[short, 96])} "
        "% at 96.",
    ]


def encodings() -> list[str]:
    at = runs("encoding_ablation")
    one, plain, alone = (
        at.loc[f"coupling, 1 layer{rest}"]
        for rest in ("", ", plain attention", ", one problem per row")
    )
    rope = at.loc["coupled RoPE, 1 layer"]
    fits = worst_trained("encoding_ablation") > SOLVED
    cells = load("encoding_ablation").view["cell"]
    others = [cell for cell in dict.fromkeys(cells) if not cell.startswith("coupl")]
    assert set(cells) == set(at.index.get_level_values("cell")), "all arms have runs"
    assert fits.drop([*others, "coupling"]).all(), "all with one layer"
    beyond = at.loc[others, [length for length in at.columns if length >= 18]].max(axis=None)
    unfit = (~fits[others]).groupby("cell").sum()
    unfit = unfit[unfit > 0].to_dict()
    positions = unfit.pop("randomized positions")
    assert positions == len(at.loc["randomized positions"])
    assert set(unfit.values()) == {1}
    names = [cell for cell in others if cell in unfit]
    return [
        f"With one layer and packed rows, coupling gets {ends(one[200])} % of the sums of 200 "
        f"digits right, {ends(plain[200])} % with plain attention. With one problem per row it is "
        f"{ends(alone[18])} % at 18 digits and {ends(alone[96])} % at 96. Coupled RoPE, which "
        "rotates queries and keys by the coupled IDs instead of looking them up in a table, gets "
        f"{ends(rope[18])} % at 18 digits and {ends(rope[200])} % at 200.",
        f"The other {WORDS[len(others)]} methods, without coupling, get at most {percent(beyond)} "
        f"% from 18 digits on in all {len(at.loc[others])} runs. Of these, {fits[others].sum()} "
        f"have more than {whole(SOLVED)} % at every trained length; the others are one run each "
        f"of {', '.join(names[:-1])} and {names[-1]}, and all {WORDS[positions]} of randomized "
        "positions, of which nothing follows.",
    ]


def patterns() -> list[str]:
    found = pattern_masses(load("depth_ablation"))
    return [
        f"Are the heads those of Theorem 5.1? In each of the {len(found)} models with coupling one "
        f"head attends to the digits of the next significance with at least "
        f"{whole(found['next'].min())} % of the most possible weight, and one to those of the "
        f"current with at least {whole(found['same'].min())} %:"
    ]


def patterns_of_heads() -> list[str]:
    found = pattern_masses(load("heads_ablation")).set_index("cell")
    one, more = found.loc["num_heads=1"], found.drop(index="num_heads=1")
    return [
        "The theorem needs two heads, one for the digits of the next significance and one for "
        "those of the current. With two heads or more, each pattern has a head with at least "
        f"{whole(more['pattern'].min())} % of the most possible weight; a single head divides its "
        f"weight, {ends(one['next'], whole)} % and {ends(one['same'], whole)} %:",
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
    one_problem_per_row,
    stored_values_of_the_reruns,
    replication,
    other_rounding,
    depth,
    fit,
    heads,
    table_size,
    train_length,
    formats,
    encodings,
    patterns,
    patterns_of_heads,
    theorem_and_trained,
    attention_patterns,
)

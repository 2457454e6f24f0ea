"""docs/thousand_digits.md: method, result, and beyond."""

import math

import pandas as pd

from analysis.tables.sweep_tables import percent
from pcore.config import override
from sweeps.baseline import addition, packed
from sweeps.engine.spec import parse_seeds
from sweeps.ten_thousand_digits import FARTHER
from sweeps.ten_thousand_digits import SWEEP as FAR_SWEEP
from sweeps.ten_thousand_digits import cells as far_cells
from sweeps.thousand_digits import SWEEP
from tests.project.derived.rows import (
    REPLICATION,
    ROUNDING,
    SOLVED,
    TWICE_THE_STEPS,
    WORDS,
    ends,
    load,
    num_examples,
    run_lines,
    runs,
    setting,
    short,
)


def first_lines() -> list[str]:
    at, config = runs("thousand_digits"), packed("laptop")
    assert load("thousand_digits").trials["train_seconds"].max() < 5 * 60
    assert setting("thousand_digits", "num_threads") == {1}
    assert (at[1000] == 1).all()
    paper, trained = addition("paper"), config.data.max_length
    far = max(paper.eval.test_lengths)
    return [
        "# A thousand digits from twelve",
        f"{WORDS[config.model.num_layers].capitalize()} layer, trained on sums of "
        f"{config.data.min_length} to {trained} digits for less than five minutes on one CPU "
        f"thread, adds numbers of 1,000 digits, {1000 // trained} times the trained length. All "
        f"{WORDS[len(at)]} runs are right on all tested sums of that length; at 3,000 digits the "
        f"median is {percent(at[3000].median())} %.",
        f"The best published result of this kind is {far / paper.data.max_length:.2f} times the "
        f"trained length (arXiv 2405.20671: {paper.data.min_length}-{paper.data.max_length} digits "
        f"to {far}).",
    ]


def rings() -> list[str]:
    config = packed("laptop")
    moduli, ids = config.position.moduli, math.prod(config.position.moduli)
    assert ids == config.position.max_position
    assert all(math.gcd(a, b) == 1 for a in moduli for b in moduli if a != b)
    planes = sum(2 * (m // 2) for m in moduli)
    return [
        f"Here an ID is encoded as the sum of one row from each of {WORDS[len(moduli)]} small "
        f"tables, row = ID modulo {', '.join(map(str, moduli))}. The moduli are coprime, so IDs "
        f"are distinct up to their product, {ids:,}, and every row is visited all the time. The "
        f"rows of a ring start as the powers of one rotation in planes of its own: {planes} of "
        f"{config.model.d_model} dimensions. Two IDs that agree in all rings but one are at least "
        f"{ids // max(moduli):,} apart ({ids:,} / {max(moduli)}); that is where an ideal model "
        "would begin to confuse them.",
    ]


def packed_rows() -> list[str]:
    config = packed("laptop")
    data, begins = config.data, config.data.packing_begins
    *growing, last = data.problems_per_row[1:]
    assert data.problems_per_row[0] == 1
    assert (begins[0], begins[-1]) == (0.25, 0.5)
    return [
        f"Training never sees more than {data.max_length} digits.",
        f"Each step has {config.optim.batch_size} problems; how many share a row grows over the "
        f"{config.optim.num_steps:,} steps: 1, then from a quarter of the steps on "
        f"{', '.join(map(str, growing))}, and {last} in the second half.",
    ]


def attention_and_decay() -> list[str]:
    config = packed("laptop")
    base, optim, model = config.model.log_base, config.optim, config.model
    assert base == config.task.num_tokens(config.data.max_length)
    assert model.attention_scale == "log-length"
    assert round(math.log(1000) / math.log(base)) == 2, "twice as steep"
    assert (optim.learning_rate, model.norm_placement) == (2e-3, "pre")
    assert config.eval.attention_factor == 1
    return [
        "**Attention sharpens with length.** "
        f"Scores are dot products times log(visible keys) / log({base:g}), where {base:g} is the "
        "number of tokens of the longest trained sequence (`attention_scale=log-length`, "
        "`log_base`): as published on short rows, twice as steep at a thousand tokens.",
        f"**Weight decay falls** from {optim.weight_decay} to {optim.final_decay_fraction:g} along "
        "a cosine (`final_decay_fraction`).",
        "The rest is standard: pre-norm, AdamW at 2e-3 with cosine decay, "
        f"{model.num_heads} heads of width {model.d_head}, d_ff {model.d_ff} (`packed` in "
        "`sweeps/baseline.py`). Attention is not sharpened further at test time.",
    ]


def the_result() -> list[str]:
    at = runs("thousand_digits")
    lengths = (12, 24, 96, 200, 500, 1000, 2000, 3000)
    ranked = at.sort_values(3000, ascending=False, kind="stable")
    assert (at.median() > SOLVED).all()
    lowest = at.min(axis=None)
    assert lowest == at[1].min()
    assert len(at) == len(parse_seeds(SWEEP.seeds["laptop"]))
    return [
        "Exact match of each run in %, sorted by the value at 3,000 digits; "
        f"{num_examples('thousand_digits', 1000)} examples at 1,000 digits, "
        f"{num_examples('thousand_digits', 3000)} at 3,000:",
        f"| model seed, data seed | {' | '.join(f'{n:,}' for n in lengths)} |",
        run_lines(ranked, lengths),
        f"The goals were a median of 99 % at 1,000 digits (reached: {percent(at[1000].median())} "
        f"%) and a worst run of 95 % at 500 (reached: {short(at[500].min())} %). The median stays "
        "above 95 % at every tested length; how far it would hold is unknown. The lowest value of "
        f"a run is at one digit ({percent(lowest)} %).",
        f"The seeds of the table were used once, and all {WORDS[len(at)]} runs that were started "
        "are in it.",
    ]


RECIPE, LONG, SHORT, HALF = [cell.label for cell in far_cells("laptop")]
FAR = 10_000


def ten_thousand_digits() -> list[str]:
    recipe, *_ = far_cells("laptop")
    lengths = (12, 200, 1000, 3000, 5000, 7000, FAR)
    table = runs("ten_thousand_digits").xs(RECIPE, level="cell", drop_level=False)
    few, more, most = (num_examples("ten_thousand_digits", n) for n in lengths[-3:])
    assert setting("ten_thousand_digits", "num_threads") == {1}
    assert len(table) == len(parse_seeds(FAR_SWEEP.seeds["laptop"]))
    assert max(table.columns) == FAR
    (less,) = table[FAR][table[FAR] < 1]
    longest = recipe.config.data.max_length
    trained = table[[n for n in table.columns if n <= longest]]
    beyond = table[[n for n in table.columns if longest < n < FAR]]
    assert (beyond < 1).sum(axis=None) == 1
    return [
        "## Ten thousand digits: a sixth ring and longer rows",
        f"Exact match of each run in %, with {few} examples at 5,000 digits, {more} at 7,000 and "
        f"{most} at 10,000:",
        f"| model seed, data seed | {' | '.join(f'{n:,}' for n in lengths)} |",
        run_lines(table, lengths, percent),
        f"{WORDS[(table[FAR] == 1).sum()].capitalize()} of {WORDS[len(table)]} runs are right on "
        f"all {most} tested sums of {FAR:,} digits, {FAR // longest} times "
        f"the trained length, and the other on {percent(less)} %; the goal was a median of 95 %. "
        f"At the other lengths beyond the trained ones only one value is below 100 %: "
        f"{percent(beyond.min(axis=None))} % at {beyond.min().idxmin():,} digits. The lowest at a "
        f"trained length is {percent(trained.min(axis=None))} %, at "
        f"{WORDS[trained.min().idxmin()]} digit.",
    ]


def right(table: pd.DataFrame) -> int:
    """Sums of 10,000 digits, of all runs together."""
    return round(table[FAR].sum() * num_examples("ten_thousand_digits", FAR))


def first_and_second(table: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The runs with the seeds of the earlier recipe, and those with fresh seeds."""
    seeds = [set(parse_seeds(part)) for part in FAR_SWEEP.seeds["laptop"].split(",")]
    first, second = (table[[pair in part for pair in table.index]] for part in seeds)
    assert len(first) == len(second) == len(seeds[0])
    return first, second


def far_controls() -> list[str]:
    """The other arms: which of the recipe's changes does it?"""
    lengths = (12, 1000, 3000, 5000, 7000, FAR)
    table = runs("ten_thousand_digits")
    minutes = load("ten_thousand_digits").trials.set_index("cell")["train_seconds"] / 60
    arms = {label: table.xs(label, level="cell") for label in (RECIPE, LONG, SHORT, HALF)}
    twice = runs("twice_the_steps", store=TWICE_THE_STEPS).droplevel("cell")
    (steps,) = setting("twice_the_steps", "optim.num_steps", TWICE_THE_STEPS)
    assert setting("ten_thousand_digits", "optim.num_steps") == {steps / 2}
    again = twice.loc[first_and_second(arms[HALF])[1].index]
    shown = f" | {' | '.join(f'{n:,}' for n in lengths)} | "
    lines = [f"| arm{shown}right, seeds 400, 401 | right, seeds 410, 411 | minutes |"]
    for label, arm in arms.items():
        found = " | ".join(ends(arm[n]) for n in lengths)
        both = " | ".join(str(right(part)) for part in first_and_second(arm))
        lines.append(f"| {label} | {found} | {both} | {ends(minutes[label], '{:.0f}'.format)} |")
    data = far_cells("laptop")[0].config.data
    # BOS and the problems: two operands, two signs and one digit more in the answer.
    tokens = 1 + max(data.problems_per_row) * (3 * data.max_length + 3)
    total = len(arms[RECIPE]) * num_examples("ten_thousand_digits", FAR)
    assert right(arms[SHORT]) < right(arms[LONG]) < right(arms[RECIPE])
    assert (arms[RECIPE][FAR] >= arms[SHORT][FAR]).all()
    first, second = first_and_second(arms[HALF])
    better = [first_and_second(arms[label])[1] for label in (LONG, HALF)]
    assert right(better[0]) == right(better[1])
    assert right(first) < right(second)
    assert twice.loc[again.index, FAR].median() < second[FAR].median()
    return [
        *lines,
        "**Longer rows reach further**: with rows of up to 32, 64 and 128, "
        f"{right(arms[SHORT])}, {right(arms[LONG])} and {right(arms[RECIPE])} of {total} sums of "
        "10,000 digits are right; no run of the recipe is worse than that with rows of 32 and the "
        f"same seeds. A row of {max(data.problems_per_row)} problems has at most {tokens:,} "
        f"tokens, a sum of {FAR:,} digits has {3 * FAR + 3:,}.",
        f"With the seeds 410 and 411 as many sums are right with half of it as with the whole one "
        f"({right(second)} of {total // 2}, rows of 64).",
        f"With the seeds 400 and 401 half of it gets {right(first)} of {total // 2}",
        f"**Twice the steps do not help.** With {steps:,} steps of half the batch, as many "
        f'problems as with the whole one (`--only "{HALF}" --set optim.num_steps={steps} --name '
        "twice_the_steps --seeds 2x2@402,2x2@410`, rows in `results/published/twice_the_steps`), "
        f"{WORDS[len(twice)]} runs have {percent(twice[FAR].min())} to "
        f"{percent(twice[FAR].max())} % at 10,000 digits, {percent(twice[FAR].median())} % in the "
        f"median; of the seeds 410 and 411, {right(again)} of {total // 2} sums are right.",
    ]


def six_rings() -> list[str]:
    config, before = far_cells("laptop")[0].config, packed("laptop")
    moduli = config.position.moduli
    (added,) = set(moduli) - set(before.position.moduli)
    assert len(moduli) == 6
    assert config == override(before, FARTHER["laptop"] | {"eval.attention_factor": 1.2})
    minutes = load("ten_thousand_digits").trials.groupby("cell")["train_seconds"]
    least, most = (pick()[far_cells("laptop")[0].label] / 60 for pick in (minutes.min, minutes.max))
    return [
        f"For longer sums the recipe needs a sixth ring (modulus {added}), so that IDs that agree "
        f"in all rings but one are at least {math.prod(moduli) // max(moduli):,} apart. This sweep "
        f"adds it, with {config.optim.num_steps:,} steps of {config.optim.batch_size} problems, "
        f"rows of up to {max(config.data.problems_per_row)}, and attention logits times "
        f"{config.eval.attention_factor} at test time: {least:.0f} to {most:.0f} minutes of "
        "training on one thread.",
    ]


def other_seeds_and_rounding() -> list[str]:
    first = runs("thousand_digits")
    near, rounded = (
        100
        * (first.median() - runs("thousand_digits", store=store).median()).abs().loc[:2000].max()
        for store in (REPLICATION, ROUNDING)
    )
    return [
        f"One width. Other seeds give the same up to 2,000 digits within {near:.1f} points in the "
        f"median, the same seeds under another rounding within {rounded:.1f}",
    ]


CHECKS = (
    first_lines,
    rings,
    packed_rows,
    attention_and_decay,
    the_result,
    ten_thousand_digits,
    far_controls,
    six_rings,
    other_seeds_and_rounding,
)

"""docs/thousand_digits.md: controls and the other tasks."""

import math
from dataclasses import replace

import numpy as np

from analysis.tables.sweep_tables import percent
from sweeps import packed_tasks, packed_train_length, packing_ablation, packing_search
from sweeps.baseline import packed
from sweeps.engine.search.space import SEED
from tests.project.derived.rows import (
    SOLVED,
    WORDS,
    arm_lines,
    medians,
    num_examples,
    runs,
    short,
    worst_trained,
)

ROWS = ("packed", "alone")


def settings() -> list[str]:
    cells = {cell.label: cell.config for cell in packing_ablation.cells("laptop")}
    table, base = cells["table, packed"], packed("laptop")
    assert table.optim.num_steps == base.optim.num_steps
    lengths = (12, 24, 48, 96, 200, 500, 1000)
    per_arm = set(runs("packing_ablation").groupby("cell").size())
    assert per_arm == {4}
    budget = packing_search.SEARCH.budget["laptop"]
    near = {cell.config.eval.near_lengths for cell in packing_ablation.cells("laptop")}
    return [
        "Each arm changes one part of the recipe, or replaces the position method, with the same "
        "number of problems and 2 x 2 seeds. The first arm shares its runs with the result above. "
        "Learning rate and weight decay of every position method, with packed rows and alone, were "
        f"searched with equal budgets: {WORDS[budget.configurations]} pairs each, those that the "
        f"arm began with among them, judged at {short_range(near)} digits on seed {SEED} "
        "(`python sweeps/packing_search.py`). An arm has its winner, unless nothing is better than "
        "what it began with. The arms that lack one part keep the recipe's. A learned table has "
        f"{table.position.max_position} rows, as published, which leaves room for at most "
        f"{max(table.data.problems_per_row)} problems per row and tests of up to "
        f"{max(table.eval.test_lengths)} digits.",
        f"Exact match in %, worst to best of {WORDS[max(per_arm)]} runs (intervals and code "
        "versions: `python -m analysis table packing_ablation`):",
        f"| arm | {' | '.join(f'{n:,}' for n in lengths)} |",
        *arm_lines("packing_ablation", lengths, 4),
    ]


def short_range(near: set[tuple[int, ...]]) -> str:
    """(13, 14, 15) as "13 to 15"."""
    ((first, *_, last),) = near
    return f"{first} to {last}"


def tuned_arms() -> list[str]:
    tuned = packing_ablation.TUNED
    optims = {
        cell.label: cell.config.optim
        for cell in packing_ablation.untuned("laptop")
        if cell.label in tuned
    }
    return [
        "| arm that gained | began with | winner |",
        *(
            f"| {arm} | {optim.learning_rate}, {optim.weight_decay} | {rate}, {decay} |"
            for arm, (rate, decay) in tuned.items()
            for optim in [optims[arm]]
        ),
    ]


def rows_and_rings() -> list[str]:
    at, moduli = runs("packing_ablation"), packed("laptop").position.moduli
    rings, table = at.loc["rings, alone"], at.loc["table, alone"]
    far = at.loc["table, packed", 200]
    assert (rings[200] == 0).all()
    assert (table[200] == 0).all()
    assert (at.loc["rings, packed", 1000] == 1).all()
    assert at.loc["table, packed"].dropna(axis=1).columns.max() == 200, "the longest test"
    assert rings[48].max() < table[48].max(), "worse than a table"
    return [
        "**Packed rows make the difference.** Without them, rings get at most "
        f"{percent(rings[96].max())} % of the sums of 96 digits right, a learned table at most "
        f"{percent(table[96].max())} %, and neither any of 200. With them, a table gets at "
        f"least {percent(far.min())} % at 200 digits, the longest test that it can represent, and "
        "rings 100 % at 1,000.",
        "**Rings give the range.** Alone they are worse than a table "
        f"(at 48 digits {percent(rings[48].min())} to {percent(rings[48].max())} % against "
        f"{percent(table[48].min())} to {percent(table[48].max())} %), but their {sum(moduli)} "
        f"rows make {math.prod(moduli):,} IDs.",
    ]


def coupled_rope() -> list[str]:
    at = runs("packing_ablation")
    packed_runs, alone = at.loc["coupled RoPE, packed"], at.loc["coupled RoPE, alone", 24]
    _, lower, high, higher = sorted(packed_runs[200])
    assert lower < 0.01
    return [
        "**Coupled RoPE** uses the same IDs as angles. Packed rows help it, but not reliably: "
        f"{percent(high)} and {percent(higher)} % at 200 digits in two runs and at most "
        f"{percent(lower)} % in two; alone, "
        f"all {WORDS[len(alone)]} runs get {percent(alone.max())} % or less at 24."
    ]


def scores_and_decay() -> list[str]:
    at = runs("packing_ablation")
    plain, base_e, constant = (
        at.loc[f"rings, packed, {name}"]
        for name in ("plain attention", "natural logarithm", "constant decay")
    )
    tested = at.columns[(at.columns > 12) & (at.columns < 1000)]
    right = [n for n in tested if (plain[n] == 1).all()]
    assert max(right) == 700
    assert plain[1000].max() < 1, "help beyond 700 digits"
    worst, *others = sorted(base_e[1000])
    assert base_e[12].idxmin() == base_e[1000].idxmin(), "did not fit"
    assert (base_e[12] < SOLVED).sum() == 1
    assert (constant[1000] == 1).all()
    return [
        f"**Logarithmic scores help beyond {max(right)} digits**: plain attention gets "
        f"{whole_ends(plain[1000])} % at 1,000. Their base matters: with base e, "
        f"{WORDS[len(others)]} runs get {percent(others[0])} % or more at 1,000 digits and one, "
        f"which did not fit the trained lengths, {percent(worst)} %.",
        "**Falling weight decay is not needed** up to 1,000 digits: all "
        f"{WORDS[len(constant)]} runs with constant decay are right on all tested sums of that "
        "length.",
    ]


def sink_and_shorter_rows() -> list[str]:
    at = runs("packing_ablation")
    sink, eight = at.loc["rings, packed, learned sink"], at.loc["rings, up to 8 in a row"]
    assert (sink[1000] == 1).all()
    return [
        "**A learned sink changes nothing** up to 1,000 digits, where all "
        f"{WORDS[len(sink)]} runs with one are right on all tested sums. **Up to eight problems in "
        f"a row** instead of 32 are almost as good: at least {percent(eight[500].min())} % at 500 "
        f"digits and {percent(eight[1000].min())} to {percent(eight[1000].max())} % at 1,000.",
    ]


def whole_ends(column) -> str:
    return f"{100 * column.min():.0f} to {100 * column.max():.0f}"


def without_coupling() -> list[str]:
    at = runs("packing_ablation")
    nope, rope, nope_alone, rope_alone = (
        at.loc[f"{name}, {rows}"] for rows in ("packed", "alone") for name in ("NoPE", "RoPE")
    )
    for arm, nothing_from in ((nope, 16), (rope, 13), (nope_alone, 15), (rope_alone, 13)):
        assert (arm[[n for n in at.columns if nothing_from <= n <= 200]] == 0).all(axis=None)
    assert rope[12].min() > nope[12].max(), "NoPE less well"
    cells = {cell.label: cell.config for cell in packing_ablation.cells("laptop")}
    both = [cells[label] for label in ("NoPE, packed", "RoPE, packed")]
    (rows,) = {max(config.data.problems_per_row) for config in both}
    (layers,) = {config.model.num_layers for config in both}
    most = max(packed("laptop").data.problems_per_row)
    alone = [*nope_alone[12], *rope_alone[12]]
    return [
        f"**NoPE and RoPE end at the trained lengths, packed or not** ({WORDS[layers]} layers, "
        f"sequential IDs; packed: rows of up to {WORDS[rows]} problems once they fit). Alone, all "
        f"{WORDS[len(alone)]} runs get at least {percent(min(alone))} % at 12 digits; NoPE has "
        f"{percent(nope_alone[13].min())} to {percent(nope_alone[13].max())} % at 13, at most "
        f"{percent(nope_alone[14].max())} % at 14 and nothing from 15 on, RoPE nothing from 13 on. "
        f"With packed rows NoPE fits less well ({percent(nope[12].min())} to "
        f"{percent(nope[12].max())} % at 12), has {percent(nope[13].min())} to "
        f"{percent(nope[13].max())} % at 13 and nothing from 16 on; RoPE has "
        f"{percent(rope[12].min())} % or more at 12 and nothing from 13 on. In the setting of the "
        f"other arms, with rows of up to {most}, one run of NoPE did not fit."
    ]


def random_start_ape() -> list[str]:
    at, trained = runs("packing_ablation"), worst_trained("packing_ablation")
    packed_runs, alone = (at.loc[f"random-start APE, {rows}"] for rows in ROWS)
    for arm in (packed_runs, alone):
        assert (arm[[n for n in at.columns if 18 <= n <= 72]] == 0).all(axis=None)
    fits = {rows: trained[f"random-start APE, {rows}"] >= SOLVED for rows in ROWS}
    assert [fits[rows].sum() for rows in ROWS] == [0, 2]
    least, less, *_ = sorted(packed_runs[12])
    return [
        "**Random-start APE ends there too**: nothing from 18 on, packed or not. Its winner "
        f"fits the trained lengths in {WORDS[fits['alone'].sum()]} of {WORDS[len(alone)]} runs "
        f"alone (at 12 digits {percent(alone[12].min())} to {percent(alone[12].max())} %) and in "
        f"none with packed rows, of which two runs get {percent(least)} and {percent(less)} % at "
        "12. A search on one seed does not say how often a setting fits."
    ]


def abacus() -> list[str]:
    at = runs("packing_ablation")
    packed_runs, alone = (at.loc[f"Abacus, {rows}"] for rows in ROWS)
    cells = {cell.label: cell.config for cell in packing_ablation.cells("laptop")}
    (layers,) = {cells[f"Abacus, {rows}"].model.num_layers for rows in ROWS}
    assert (alone[12] == 1).all()
    assert (alone[96] == 0).all()
    assert all(np.ptp(packed_runs[n]) < np.ptp(alone[n]) for n in (24, 36)), "closer together"
    assert max(packed_runs[200].max(), alone[200].max()) == 0
    table = at.loc["table, packed", 200]
    return [
        "**Abacus** numbers the digits of each number, least significant first, so equal "
        "significance gets an equal ID here too, but the token before an answer gets none; with "
        f"one layer it cannot work, so it has {WORDS[layers]}. Alone it reaches twice the trained "
        f"length ({ends(alone[24])} % at 24, {ends(alone[36])} % at 36), and nothing at 96. With "
        f"packed rows its runs lie closer together ({ends(packed_runs[24])} % at 24, "
        f"{ends(packed_runs[36])} % at 36), but they do not go much further: at most "
        f"{percent(packed_runs[72].max())} % at 72 and nothing at 200, where the packed table of "
        f"one layer has at least {percent(table.min())} %.",
    ]


def ends(column) -> str:
    return f"{percent(column.min())} to {percent(column.max())}"


def other_tasks() -> list[str]:
    cells = packed_tasks.cells("laptop")
    configs = {cell.label.removesuffix(", packed"): cell.config for cell in cells[::2]}
    (steps,) = {config.optim.num_steps for config in configs.values()}
    assert 2 * steps == packed("laptop").optim.num_steps
    board = configs["minesweeper"].data
    eight = {name for name, config in configs.items() if config.data.max_length == 8}
    assert eight == {"N x 2", "three operands"}
    assert [config.model.num_layers for config in configs.values()] == [1, 1, 2, 2, 2, 3, 3]
    lengths = (5, 8, 12, 24, 64, 96, 130, 330, 500, 1000)
    (planned,) = set(runs("packed_tasks").groupby("cell").size())
    return [
        f"The recipe on {WORDS[len(configs)]} other tasks, trained on 1-12 symbols (sums of three "
        f"operands and N x 2: 1-8 digits; minesweeper: boards of side {board.min_length}-"
        f"{board.max_length}), with half the steps ({steps:,}) and as many layers as the tasks' "
        "own sweeps: copy and reverse 1, the next three 2, sorting and minesweeper 3.",
        f"Exact match in %, worst to best of {WORDS[planned]} runs, with "
        f"{num_examples('packed_tasks', 1000)} examples at 1,000 symbols:",
        f"| task | {' | '.join(f'{n:,}' for n in lengths)} |",
        *arm_lines("packed_tasks", lengths, planned),
    ]


def how_far_other_tasks_go() -> list[str]:
    at = runs("packed_tasks")
    copied = ["copy", "reverse", "parity, scratchpad"]
    assert (at.loc[[f"{task}, alone" for task in copied], 500] == 0).all()
    parity = at.loc["parity, scratchpad, packed", 1000]
    assert (parity == 1).all()
    least = at.loc[[f"{task}, packed" for task in copied], 500].min()
    three = at.loc["three operands, packed"]
    alone = at.loc["three operands, alone", 12].max()
    return [
        "**Copy, reverse and parity with a scratchpad** go far beyond the trained lengths: with "
        f"packed rows at least {short(least)} % at 500 symbols ({500 / 12:.0f} times), alone none. "
        f"Parity gets every string of 1,000 bits right in all {WORDS[len(parity)]} runs.",
        f"**Three operands**, trained on 8 digits, get {percent(three[64].min())} to "
        f"{percent(three[64].max())} % at 64 and {percent(three[130].min())} to "
        f"{percent(three[130].max())} % at 130; alone, at most {percent(alone)} % at 12.",
    ]


def tasks_that_fail() -> list[str]:
    at, trained = runs("packed_tasks"), worst_trained("packed_tasks")
    assert trained["sorting, packed"].max() < SOLVED
    assert at.loc["sorting, packed", 12].max() < SOLVED
    assert (trained["sorting, alone"] > SOLVED).all()
    for task in ("N x 2", "minesweeper"):
        for rows in ("packed", "alone"):
            assert trained[f"{task}, {rows}"].max() < SOLVED, "do not fit"
    return [
        "**Sorting gets worse.** Alone it reaches 24 digits, twice the trained length, with at "
        f"least {short(at.loc['sorting, alone', 24].min())} %; with packed rows no run fits the "
        "trained lengths.",
        "**N x 2 and minesweeper** do not fit the trained lengths in this setting, packed or "
        "alone, so nothing follows from them.",
    ]


def short_sums() -> list[str]:
    at = runs("packed_train_length")
    one, two, three = (at.loc[f"trained on 1-{n}"] for n in (1, 2, 3))
    low, lower, high, higher = sorted(two[24])
    assert low == lower == 0
    lengths = (2, 3, 12, 24, 96, 200, 300, 500, 1000, 2000, 3000)
    assert set(at.loc["trained on 1-12"].index) <= set(
        runs("thousand_digits").loc["trained on 1-12"].index
    ), "four of the eight above"
    configs = [cell.config for cell in packed_train_length.cells("laptop")]
    same = {(c.position.moduli, c.data.problems_per_row, c.optim, c.position) for c in configs}
    assert len(same) == 1
    assert len({replace(c.model, log_base=0) for c in configs}) == 1
    return [
        "The same recipe trained on shorter and on longer sums: the same rings, problems, rows and "
        "steps, none of them tuned again; only the base of the logits follows the longest trained "
        "length.",
        "2 x 2 seeds; the runs trained on 1-12 are "
        f"{WORDS[len(at.loc['trained on 1-12'])]} of the {WORDS[len(runs('thousand_digits'))]} "
        "above.",
        f"Exact match in %, worst to best of {WORDS[len(three)]} runs; a length up to the end of "
        "the range is a trained one:",
        f"| trained range | {' | '.join(f'{n:,}' for n in lengths)} |",
        *arm_lines("packed_train_length", lengths, 4),
        f"**Three digits are enough for hundreds.** Trained on 1-3, all {WORDS[len(three)]} runs "
        f"get at least {percent(three[200].min())} % of the sums of 200 digits right, "
        f"{200 / 3:.0f} times the trained length, and {percent(three[500].min())} to "
        f"{percent(three[500].max())} % of those of 500.",
        "**Two digits are at the edge, one is not enough.** Trained on 1-2, all runs fit (at least "
        f"{percent(two[[1, 2]].min(axis=None))} % on one and two digits), but only two of "
        f"{WORDS[len(two)]} go on: {percent(high)} and {percent(higher)} % at 24 digits, two get "
        f"none right. Trained on one digit, runs get at most {percent(one[2].max())} % at two "
        "digits.",
    ]


def longer_training_sums() -> list[str]:
    six = runs("packed_train_length").loc["trained on 1-6", 1000]
    at_3000 = medians("packed_train_length", 3000)
    assert runs("packed_train_length").loc["trained on 1-20", 2000].min() == 1
    *trained, last = (3, 4, 6, 8, 12, 20)
    shown = [at_3000[f"trained on 1-{n}"] for n in (*trained, last)]
    assert sorted(shown) == shown, "further with each"
    return [
        "**Longer sums in training reach further.** Trained on 1-6, runs get at 1,000 digits "
        f"{percent(six.min())} to {percent(six.max())} %. Trained on 1-"
        f"{', '.join(map(str, trained))} and {last}, the medians at 3,000 digits are "
        f"{', '.join(map(percent, shown))} %."
    ]


CHECKS = (
    settings,
    tuned_arms,
    rows_and_rings,
    coupled_rope,
    scores_and_decay,
    sink_and_shorter_rows,
    without_coupling,
    random_start_ape,
    abacus,
    other_tasks,
    how_far_other_tasks_go,
    tasks_that_fail,
    short_sums,
    longer_training_sums,
)

"""docs/thousand_digits.md: controls and the other tasks."""

import math
from dataclasses import replace

from analysis.tables.sweep_tables import percent
from sweeps import packed_tasks, packed_train_length, packing_ablation
from sweeps.baseline import packed
from tests.project.derived.rows import (
    SOLVED,
    WORDS,
    arm_lines,
    load,
    medians,
    num_examples,
    runs,
    short,
    worst_trained,
)


def settings() -> list[str]:
    cells = {cell.label: cell.config for cell in packing_ablation.cells("laptop")}
    table, base = cells["table, packed"], packed("laptop")
    assert table.optim.num_steps == base.optim.num_steps
    lengths = (12, 24, 48, 96, 200, 500, 1000)
    per_arm = set(runs("packing_ablation").groupby("cell").size())
    assert per_arm == {4}
    return [
        "Each arm changes one part of the recipe, or replaces the rings by another way of using "
        "the same coupled IDs, with the same number of problems and steps and 2 x 2 seeds. The "
        "first arm shares its runs with the result above. Only that arm was tuned: an arm that "
        "does badly may just need other settings. A learned table has "
        f"{table.position.max_position} rows, as published, which leaves room for at most "
        f"{max(table.data.problems_per_row)} problems per row and tests of up to "
        f"{max(table.eval.test_lengths)} digits.",
        f"Exact match in %, worst to best of {WORDS[max(per_arm)]} runs (intervals and code "
        "versions: `python -m analysis table packing_ablation`):",
        f"| arm | {' | '.join(f'{n:,}' for n in lengths)} |",
        *arm_lines("packing_ablation", lengths, 4),
    ]


def rows_and_rings() -> list[str]:
    at, moduli = runs("packing_ablation"), packed("laptop").position.moduli
    rings, table = at.loc["rings, alone"], at.loc["table, alone"]
    far = at.loc["table, packed", 200]
    assert (rings[96] == 0).all()
    assert (at.loc["rings, packed", 1000] == 1).all()
    assert at.loc["table, packed"].dropna(axis=1).columns.max() == 200, "the longest test"
    assert rings[24].max() < table[24].min(), "worse than a table"
    return [
        "**Packed rows make the difference.** Without them, rings get no sum of 96 digits right "
        f"and a learned table at most {percent(table[96].max())} %. With them, a table gets at "
        f"least {percent(far.min())} % at 200 digits, the longest test that it can represent, and "
        "rings 100 % at 1,000.",
        "**Rings give the range.** Alone they are worse than a table "
        f"(at 24 digits {percent(rings[24].min())} to {percent(rings[24].max())} % against "
        f"{percent(table[24].min())} to {percent(table[24].max())} %), but their {sum(moduli)} "
        f"rows make {math.prod(moduli):,} IDs.",
    ]


def coupled_rope() -> list[str]:
    at = runs("packing_ablation")
    packed_runs, alone = at.loc["coupled RoPE, packed"], at.loc["coupled RoPE, alone", 24]
    low, lower, high, higher = sorted(packed_runs[200])
    assert low == lower == 0
    return [
        "**Coupled RoPE** uses the same IDs as angles. Packed rows help it, but not reliably: "
        f"{percent(high)} and {percent(higher)} % at 200 digits in two runs and 0 % in two; alone, "
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


def whole_ends(column) -> str:
    return f"{100 * column.min():.0f} to {100 * column.max():.0f}"


def without_coupling() -> list[str]:
    at = runs("packing_ablation").loc[["NoPE, packed", "RoPE, packed"]]
    assert (at[[n for n in at.columns if 16 <= n <= 200]] == 0).all(axis=None)
    nope, rope = at.loc["NoPE, packed"], at.loc["RoPE, packed"]
    assert (rope[[13, 14, 15]] == 0).all(axis=None)
    assert rope[12].min() > nope[12].max(), "NoPE less well"
    cells = {cell.label: cell.config for cell in packing_ablation.cells("laptop")}
    both = [cells[label] for label in ("NoPE, packed", "RoPE, packed")]
    (rows,) = {max(config.data.problems_per_row) for config in both}
    (layers,) = {config.model.num_layers for config in both}
    most = max(packed("laptop").data.problems_per_row)
    return [
        f"**Packed rows do nothing for NoPE and RoPE** ({WORDS[layers]} layers, sequential IDs), "
        f"which are trained on rows of up to {WORDS[rows]} problems once they fit the trained "
        "lengths. They keep fitting them, NoPE less well: NoPE has "
        f"{percent(nope[12].min())} to {percent(nope[12].max())} % at 12 digits, RoPE "
        f"{percent(rope[12].min())} % or more. RoPE gets no sum of 13 digits right, NoPE none of "
        f"16, and neither any longer one. In the setting of the other arms, with rows of up to "
        f"{most}, one run of NoPE did not fit."
    ]


def arms_that_were_not_run() -> list[str]:
    statuses = load("packing_ablation").trials.groupby("cell")["status"].unique()
    unrun = {cell for cell, status in statuses.items() if set(status) == {"missing"}}
    assert unrun == {
        *("rings, up to 8 in a row", "rings, packed, learned sink", "NoPE, alone", "RoPE, alone"),
    }
    assert not any(name in cell for cell in statuses.index for name in ("APE", "Abacus"))
    for name in ("NoPE", "RoPE"):
        beyond = runs("depth_ablation").loc[f"{name}, 3 layers"]
        assert beyond[[18, 20, 22, 24]].max(axis=None) == 0
    return [
        "Not run: rings with up to 8 problems in a row and with a learned sink, NoPE and RoPE "
        "without packed rows in this sweep (they end at the trained lengths in "
        "[results.md](results.md) too), random-start APE and Abacus."
    ]


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
    return [
        f"The recipe on {WORDS[len(configs)]} other tasks, trained on 1-12 symbols (sums of three "
        f"operands and N x 2: 1-8 digits; minesweeper: boards of side {board.min_length}-"
        f"{board.max_length}), with half the steps ({steps:,}) and as many layers as the tasks' "
        "own sweeps: copy and reverse 1, the next three 2, sorting and minesweeper 3.",
        "Exact match in %, worst to best of three runs of four planned where nothing else is said, "
        f"with {num_examples('packed_tasks', 1000)} examples at 1,000 symbols:",
        f"| task | {' | '.join(f'{n:,}' for n in lengths)} |",
        *arm_lines("packed_tasks", lengths, 3),
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
    rows_and_rings,
    coupled_rope,
    scores_and_decay,
    without_coupling,
    arms_that_were_not_run,
    other_tasks,
    how_far_other_tasks_go,
    tasks_that_fail,
    short_sums,
    longer_training_sums,
)

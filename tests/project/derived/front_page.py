"""README."""

import math

from analysis.findings import LEAST_RUNS
from analysis.tables.sweep_tables import percent
from sweeps import quickstart
from sweeps.baseline import addition, core, packed
from sweeps.engine.store.store import Store
from sweeps.ten_thousand_digits import cells as far_cells
from tests.project.derived.rows import PUBLISHED, SOLVED, WORDS, load, runs

UNCOUPLED = ["NoPE, 3 layers", "random-start APE, 3 layers", "RoPE, 3 layers"]


def published_claim() -> list[str]:
    config = addition("paper")
    assert max(config.eval.test_lengths) == 200
    return [
        f"a {config.model.num_layers}-layer model trained on {config.data.min_length}-"
        f"{config.data.max_length} digits then adds 200-digit numbers."
    ]


def quick_start() -> list[str]:
    cells = quickstart.cells("laptop")
    data, tests = cells[0].config.data, cells[0].config.eval.test_lengths
    assert {(c.config.data.max_length, c.config.eval.test_lengths) for c in cells} == {
        (data.max_length, tests)
    }
    names = [cell.label.partition(",")[0] for cell in cells]
    assert names == ["coupling", "NoPE", "random-start APE", "RoPE"]
    return [
        f"train {WORDS[len(cells)]} position methods, print a table",
        "It trains models with position coupling, without positions (NoPE), with absolute "
        "positions from random starts (random-start APE) and with rotary embeddings (RoPE) on sums "
        f"of {data.min_length}-{data.max_length} digits, and tests them on up to {max(tests)}.",
    ]


def thousand_digits() -> list[str]:
    at, config = runs("thousand_digits"), packed("laptop")
    minutes = load("thousand_digits").trials["train_seconds"].max() / 60
    assert (at[1000] >= at[1000].max()).all()
    assert config.position.encoding == "residues"
    trained = config.data.max_length
    return [
        f"{WORDS[config.model.num_layers].capitalize()} layer, trained on sums of "
        f"{config.data.min_length} to {trained} digits for at most {minutes:.1f} minutes on one "
        "core, with IDs encoded as *residue rings* (small tables indexed by ID mod m) and several "
        f"problems *packed* into a row of tokens: all {WORDS[len(at)]} runs are right on "
        f"{percent(at[1000].min())} % of the tested sums of "
        f"1,000 digits, {1000 // trained} times the trained length, and on "
        f"{percent(at[3000].min())} to {percent(at[3000].max())} % of those of 3,000.",
    ]


def ten_thousand_digits() -> list[str]:
    recipe, *_ = far_cells("laptop")
    config, before = recipe.config, packed("laptop")
    at = runs("ten_thousand_digits").xs(recipe.label, level="cell")
    trials = load("ten_thousand_digits").trials
    minutes = trials.loc[trials["cell"] == recipe.label, "train_seconds"].max() / 60
    assert len(config.position.moduli) == len(before.position.moduli) + 1 == 6
    assert max(config.data.problems_per_row) > max(before.data.problems_per_row)
    (other,) = at[10_000][at[10_000] < 1]
    return [
        f"With a sixth ring, longer rows and at most {math.ceil(minutes)} minutes of training, "
        f"{WORDS[(at[10_000] == 1).sum()]} of {WORDS[len(at)]} runs are right on all tested sums "
        f"of 10,000 digits, {10_000 // config.data.max_length} times the trained length, and the "
        f"other on {percent(other)} %.",
    ]


def packed_rows_matter() -> list[str]:
    at = runs("packing_ablation")[96]
    assert (at[["rings, packed", "table, packed"]] > SOLVED).all()
    return [
        "Packed rows make the difference: without them no run with rings gets more than "
        f"{percent(at['rings, alone'].max())} % of the sums of 96 digits right, and none with a "
        f"learned table more than {percent(at['table, alone'].max())} %."
    ]


def three_digits() -> list[str]:
    three = runs("packed_train_length").loc["trained on 1-3"]
    return [
        f"Even trained on sums of at most three digits, all {WORDS[len(three)]} runs get at least "
        f"{percent(three[200].min())} % of those of 200 digits right."
    ]


def depth_at_200() -> list[str]:
    table, config = runs("depth_ablation"), core("laptop")
    one = table.loc["coupling, 1 layer", 200]
    assert config.position.max_position == addition("paper").position.max_position, "as published"
    tested = [length for length in table.columns if length >= min(config.eval.test_lengths)]
    others = table.loc[UNCOUPLED, tested].max(axis=None)
    return [
        "The core set of ablations (`depth_ablation` and five others) has packed rows too, with a "
        f"learned table of {config.position.max_position} rows, as published. With one layer all "
        f"{WORDS[len(one)]} runs get at least {percent(one.min())} % of the sums of 200 digits "
        f"right; NoPE, random-start APE and RoPE get {percent(others)} % from {tested[0]} digits "
        "on. At this scale a result is an *ordering*.",
    ]


def no_paper_scale() -> list[str]:
    stores = [file.parent for file in PUBLISHED.glob("*/views")]
    assert stores
    assert "paper" not in {scale for store in stores for _, scale in Store(store).view_names()}
    return ["Nothing has been run at `paper` scale yet."]


def fewest_runs() -> list[str]:
    return [
        "numbers are judged at paper scale only, orderings at laptop scale too, and never with "
        f"fewer than {WORDS[LEAST_RUNS]} runs of a trained cell"
    ]


CHECKS = (
    published_claim,
    quick_start,
    thousand_digits,
    ten_thousand_digits,
    packed_rows_matter,
    three_digits,
    depth_at_200,
    no_paper_scale,
    fewest_runs,
)

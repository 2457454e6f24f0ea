"""docs/laptop_recipe.md: what `sweeps.baseline` sets, and what the sweep then showed."""

from analysis.tables.sweep_tables import percent
from sweeps import depth_ablation
from sweeps.baseline import addition
from tests.project.derived.front_page import COUPLED
from tests.project.derived.rows import WORDS, runs, setting, whole


def the_recipe() -> list[str]:
    config = addition("laptop")
    model, data, optim, position = config.model, config.data, config.optim, config.position
    assert model.norm_placement == "pre"
    assert (position.start, position.table_init) == ("wrapped", "rotation")
    assert (optim.learning_rate, optim.final_lr_fraction, data.num_examples) == (2e-3, 0, None)
    near = config.eval.near_lengths
    return [
        f"{model.num_heads} heads of width {model.d_head}, d_model {model.d_model}, d_ff "
        f"{model.d_ff}, pre-norm; batch {optim.batch_size}, {optim.num_steps:,} steps, learning "
        f"rate 2e-3 with cosine decay to 0, beta2 {optim.beta2}, **weight decay "
        f"{optim.weight_decay}**; coupled IDs on a ring (wrapped start) of {position.max_position} "
        "positions, **table rows that are powers of one rotation**; trained on "
        f"{data.min_length}-{data.max_length} digits, fresh examples at every step.",
        "Every choice was made on the train range "
        f"({data.min_length}-{data.max_length}) and the near range ({min(near)}-{max(near)}; "
        "before that 11-14, with models trained on 1-10), mostly with two runs each, "
        "sometimes with one.",
    ]


def the_depth_ablation() -> list[str]:
    cells = {cell.label: cell.config for cell in depth_ablation.cells("laptop")}
    coupled = [cells[label] for label in COUPLED]
    others = [config for label, config in cells.items() if label not in COUPLED]
    assert {c.model.attention_scale for c in coupled} == {"log-length"}
    assert [c.model.query_init for c in coupled] == ["normal", "zero", "zero"]
    assert {c.model.attention_scale for c in others} == {"none"}
    (factor,) = {c.eval.attention_factor for c in coupled}
    (layers,) = {c.model.num_layers for c in others}
    one = coupled[0]
    return [
        "In the depth ablation (`sweeps/depth_ablation.py`) the coupling arms have **sharp "
        "attention**: logits times the logarithm of the number of visible keys, times "
        f"{factor} in evaluation; query weights start at zero. With one layer the heads have width "
        f"{one.model.d_head} and training takes {one.optim.num_steps:,} steps. The other encodings "
        "keep plain attention (the logarithm slows them down), have "
        f"{WORDS[layers]} layers, and use the steps and learning rate that fit the trained lengths."
    ]


def what_the_sweep_showed() -> list[str]:
    table = runs("depth_ablation")
    assert setting("depth_ablation", "seed") == {0, 1, 2}
    one, two, three = (table.loc[cell].droplevel("data_seed") for cell in COUPLED)
    at_24 = {n: ", ".join(percent(v) for v in t[24]) for n, t in ((1, one), (2, two), (3, three))}
    beyond = [length for length in one.columns if length >= 13]
    assert table.columns.max() == 24
    assert one.loc[2, 2] == one.loc[2].loc[:12].min(), "seed 2 misses trained lengths"
    falls = one.loc[1, beyond]
    assert falls.diff().max() < 0.01, "seed 1 falls slowly"
    assert falls.iloc[0] > 0.95 > falls.iloc[-1]
    return [
        'The rows of three seeds are in [results.md](results.md) under "Depth". Exact match at 24 '
        "digits, twice the trained length and the largest tested, for seeds 0, 1, 2: "
        f"- two layers: {at_24[2]} %; seed 2 has {percent(two.loc[2, 18])} % at 18 digits and "
        f"{percent(two.loc[2, 22])} % at 22; "
        f"- three layers: {at_24[3]} %; seed 0 has {percent(three.loc[0, 15])} % at 15 digits and "
        f"{percent(three.loc[0, 16])} % at 16, seed 1 {percent(three.loc[1, 16])} % at 16; "
        f"- one layer: {at_24[1]} %; seed 1 falls slowly from {beyond[0]} digits on, seed 2 misses "
        f"trained lengths ({whole(one.loc[2, 2])} % at 2 digits) and has "
        f"{whole(one.loc[2, beyond].max())} % or less from {beyond[0]} digits on.",
    ]


CHECKS = (the_recipe, the_depth_ablation, what_the_sweep_showed)

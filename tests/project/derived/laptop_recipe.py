"""docs/laptop_recipe.md: what `sweeps.baseline` sets."""

from analysis.tables.sweep_tables import percent
from pcore.config import override
from sweeps import depth_ablation, packing_ablation
from sweeps.baseline import BASELINE_DEPTH, ONE_LAYER, OTHERS, SHARP, addition, core
from tests.project.derived.front_page import UNCOUPLED
from tests.project.derived.rows import WORDS, runs, setting


def the_packed_recipe() -> list[str]:
    config = core("laptop")
    model, data, optim, position = config.model, config.data, config.optim, config.position
    assert model.norm_placement == "pre"
    assert (position.encoding, position.ids, position.start) == ("learned", "coupled", "wrapped")
    assert (position.table_init, model.attention_scale) == ("rotation", "log-length")
    assert (optim.learning_rate, optim.final_lr_fraction, data.num_examples) == (2e-3, 0, None)
    assert (optim.final_decay_fraction, config.eval.attention_factor) == (0, 1)
    assert position.max_position == addition("paper").position.max_position, "as published"
    assert data.packing_begins[0] == 0.25, "a quarter"
    alone, *few, most = data.problems_per_row
    assert alone == 1
    return [
        f"{WORDS[model.num_layers].capitalize()} layer, {model.num_heads} heads of width "
        f"{model.d_head}, d_model {model.d_model}, d_ff {model.d_ff}, pre-norm; "
        f"{optim.batch_size} problems in each of {optim.num_steps:,} steps, learning rate 2e-3 "
        f"with cosine decay to 0, beta2 {optim.beta2}, weight decay {optim.weight_decay} that "
        f"falls to 0; a learned table of {position.max_position} rows, as published, that starts "
        "as the powers of one rotation; coupled IDs on that ring (wrapped start); logits times "
        "the logarithm of the number of visible keys, without a factor in evaluation; trained on "
        f"{data.min_length}-{data.max_length} digits, fresh examples at every step, alone in their "
        f"rows for a quarter of the steps, then {', '.join(map(str, few))} and at last {most} in "
        "a row",
    ]


def where_it_comes_from() -> list[str]:
    (arm,) = (c for c in packing_ablation.cells("laptop") if c.label == "table, packed")
    assert arm.config == core("laptop")
    at = runs("packing_ablation").loc["table, packed", 200]
    return [
        f'It is the arm "table, packed" of `packing_ablation`, of which all {WORDS[len(at)]} runs '
        f"get at least {percent(at.min())} % of the sums of 200 digits right. The seeds of the "
        f"core set begin at {min(setting('depth_ablation', 'seed'))}",
    ]


def the_uncoupled() -> list[str]:
    cells = {cell.label: cell.config for cell in depth_ablation.cells("laptop")}
    found = [cells[label] for label in UNCOUPLED]
    assert {c.model.attention_scale for c in found} == {"none"}
    assert {c.data.problems_per_row for c in found} == {(1,)}
    (layers,) = {c.model.num_layers for c in found}
    (searched,) = (c for c in packing_ablation.cells("laptop") if c.label == "NoPE, alone")
    assert cells["NoPE, 3 layers"] == searched.config, "as the search found it"
    before, now = OTHERS["NoPE"], searched.config.optim
    assert before == {"optim.num_steps": 2500, "optim.learning_rate": 3e-3}
    return [
        f"have {WORDS[layers]} layers, plain attention and one problem per row",
        "with 2,500 steps and a learning rate of 3e-3, as before,",
        f"{now.num_steps:,} steps and {now.learning_rate}",
    ]


def the_older_recipe() -> list[str]:
    config = addition("laptop")
    model, data, optim, position = config.model, config.data, config.optim, config.position
    assert model.norm_placement == "pre"
    assert (position.start, position.table_init) == ("wrapped", "rotation")
    assert (optim.learning_rate, optim.final_lr_fraction, data.num_examples) == (2e-3, 0, None)
    near, coupled = config.eval.near_lengths, override(config, SHARP)
    assert coupled.model.attention_scale == "log-length"
    assert coupled.model.query_init == "zero"
    one = override(coupled, ONE_LAYER)
    return [
        f"{model.num_heads} heads of width {model.d_head}, d_model {model.d_model}, d_ff "
        f"{model.d_ff}, pre-norm; batch {optim.batch_size}, {optim.num_steps:,} steps, learning "
        f"rate 2e-3 with cosine decay to 0, beta2 {optim.beta2}, **weight decay "
        f"{optim.weight_decay}**; coupled IDs on a ring (wrapped start) of {position.max_position} "
        "positions, **table rows that are powers of one rotation**; trained on "
        f"{data.min_length}-{data.max_length} digits, fresh examples at every step. Coupling arms "
        "have **sharp attention**: logits times the logarithm of the number of visible keys, times "
        f"{coupled.eval.attention_factor} in evaluation; query weights start at zero. With one "
        f"layer the heads have width {one.model.d_head} and training takes "
        f"{one.optim.num_steps:,} steps. The other encodings keep plain attention (the logarithm "
        f"slows them down), have {WORDS[BASELINE_DEPTH['laptop']]} layers, and use the steps and "
        "learning rate that fit the trained lengths.",
        "Every choice was made on the train range "
        f"({data.min_length}-{data.max_length}) and the near range ({min(near)}-{max(near)}; "
        "before that 11-14, with models trained on 1-10), mostly with two runs each, "
        "sometimes with one.",
    ]


CHECKS = (the_packed_recipe, where_it_comes_from, the_uncoupled, the_older_recipe)

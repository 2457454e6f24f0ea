"""Every sweep script expands at every scale, and its claim says something."""

import importlib
import time
from itertools import product
from pathlib import Path

import pytest

from pcore.config import TrialConfig, override
from pcore.encodings.position_ids import num_levels
from pcore.evaluation import evaluation_lengths
from pcore.tasks.addition import Addition
from sweeps.baseline import core, coupling
from sweeps.commands.catalogue import find_sweep, sweep_names
from sweeps.engine.spec import SCALES, Cell, Sweep, parse_seeds
from sweeps.tables import TABLES

FOLDER = Path(__file__).parents[2] / "sweeps"
SCRIPTS = sorted(
    path.stem
    for path in FOLDER.glob("*.py")
    if path.stem not in ("__init__", "__main__", "baseline", "tables")
)
SEARCHES = [name for name in SCRIPTS if "\nSEARCH = " in (FOLDER / f"{name}.py").read_text()]
SWEEPS = [name for name in SCRIPTS if name not in SEARCHES]
# Published before it was known: copy and mirror with the factor of sums; minesweeper counting from
# 1 in both directions.
JUDGED_OTHERWISE = ("found_coupling", "packed_tasks")


def test_the_catalogue_lists_every_sweep_and_names_the_nearest():
    assert sweep_names() == SWEEPS
    assert find_sweep("sweeps/depth_ablation.py").name == "depth_ablation"
    with pytest.raises(
        ValueError, match=r"no sweep 'depth_ablatoin'\. Did you mean 'depth_ablation'"
    ):
        find_sweep("depth_ablatoin")


def test_a_script_of_the_users_own_is_a_sweep_too(tmp_path):
    script = tmp_path / "mine.py"
    script.write_text((FOLDER / "depth_ablation.py").read_text().replace("depth_ablation", "mine"))
    assert find_sweep(str(script)).name == "mine"
    script.write_text("x = 1\n")
    with pytest.raises(ValueError, match="defines no SWEEP"):
        find_sweep(str(script))


@pytest.mark.parametrize("name", SWEEPS)
@pytest.mark.parametrize("scale", SCALES)
def test_every_sweep_expands_at_every_scale(name, scale):
    sweep: Sweep = importlib.import_module(f"sweeps.{name}").SWEEP
    trials = sweep.trials(scale)
    assert sweep.name == name
    assert len(sweep.claim) > 100
    assert len({trial.id for trial in trials}) == len(trials) >= 2
    for config in (cell.config for cell in sweep.cells(scale)):
        if config.position.encoding != "none":
            config.position.level_limits(num_levels(config.task, config.position))


@pytest.mark.parametrize("name", SWEEPS)
def test_a_laptop_cell_has_four_runs_and_is_judged_as_it_was_trained(name):
    sweep: Sweep = importlib.import_module(f"sweeps.{name}").SWEEP
    assert len(parse_seeds(sweep.seeds["laptop"])) >= 4
    for cell in sweep.cells("laptop"):
        config = cell.config
        sums = isinstance(config.task, Addition) and config.task.num_operands == 2
        if name not in JUDGED_OTHERWISE:
            assert sums or config.eval.attention_factor == 1, cell.label
            levels = num_levels(config.task, config.position)
            shared = config.position.level_tables == "shared" and levels > 1
            has_table = config.position.encoding in ("learned", "residues")
            assert not (shared and has_table and config.position.test_policy == "fixed"), cell.label


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_sweep_is_executable_by_itself(name):
    """`ray job submit sweeps/NAME.py` runs the file: it needs a shebang and the run bit."""
    path = Path(__file__).parents[2] / "sweeps" / f"{name}.py"
    assert path.read_text().startswith("#!/usr/bin/env python\n")
    assert path.stat().st_mode & 0o111


def test_paper_scale_is_the_published_setting():
    """Settings table of the paper, row "addition: depth" (1-6 layers, 8 heads, 1024/128/2048)."""
    from sweeps.depth_ablation import SWEEP

    cells = {cell.label: cell.config for cell in SWEEP.cells("paper")}
    for depth in range(1, 7):
        config = cells[f"coupling, {depth} layer{'s' * (depth > 1)}"]
        assert config.model.num_layers == depth
        assert (config.model.num_heads, config.model.d_model) == (8, 1024)
        assert (config.model.d_head, config.model.d_ff) == (128, 2048)
        assert (config.optim.num_steps, config.optim.batch_size) == (50_000, 1000)
        assert config.optim.learning_rate == 3e-5
        assert (config.position.max_position, config.position.start) == (202, "random")
        assert (config.data.num_examples, config.data.max_length) == (1_000_000, 30)
        assert config.model.attention_scale == "none"
        assert max(config.eval.test_lengths) == 200


def test_all_sweeps_together_expand_in_little_time():
    """`--plan` and `status` expand every sweep before they say anything."""
    start = time.process_time()
    for name, scale in product(SWEEPS, SCALES):
        find_sweep(name).trials(scale)
    assert time.process_time() - start < 15  # shapes are checked here: about ten times slower


# Tables -------------------------------------------------------------------------------------------


def test_the_paper_table_holds_every_sweep_once_and_no_search():
    assert sorted(TABLES["paper"]) == SWEEPS
    assert len(set(TABLES["paper"])) == len(TABLES["paper"])


def test_the_other_tables_are_the_parts_of_the_paper_table_in_its_order():
    parts = [name for table, names in TABLES.items() if table != "paper" for name in names]
    assert tuple(parts) == TABLES["paper"]
    assert not set(TABLES) & set(SWEEPS)  # a sweep's own name is a table too


# Reference arms -----------------------------------------------------------------------------------

REFERENCES = {  # the first cell at smoke, laptop and paper scale
    "architecture_study": ("2 layers, 2 heads", "2 layers, 4 heads", "6 layers, 8 heads"),
    "attention_probe": ("num_heads=2",) * 3,
    "attention_scale_ablation": (
        "coupling, log-length, x1.6 in evaluation, d_head=16",
        "coupling, log-length, x1.6 in evaluation, d_head=32",
        "coupling, plain, x1 in evaluation, d_head=128",
    ),
    "copy_reverse": ("copy, coupling, 1 layer",) * 3,
    "equal_compute": ("coupling, 1 times the tokens",) * 3,
    "found_coupling": ("addition, backward-up (designed)",) * 3,
    "five_hundred_digits": ("trained on 1-3", "trained on 1-12", "trained on 1-160"),
    "method_grid": (
        "coupling, num_layers=1, num_heads=1",
        "coupling, num_layers=1, num_heads=2",
        "coupling, num_layers=1, num_heads=2",
    ),
    "minesweeper": ("shared table",) * 3,
    "mixer_ablation": ("reference: coupling",) * 3,
    "multiplication_depth": ("coupling, 2 layers",) * 3,
    "norm_ablation": ("RMSNorm before and after", "RMSNorm before", "RMSNorm before and after"),
    "num_examples_ablation": ("endless examples", "endless examples", "1 000 000 examples"),
    "operand_lengths": ("coupling",) * 3,
    "operands_ablation": ("coupling, 2 layers", "coupling, 2 layers", "coupling, 3 layers"),
    "packed_tasks": ("copy, packed",) * 3,
    "packed_train_length": ("trained on 1-3", "trained on 1-20", "trained on 1-40"),
    "packing_ablation": ("rings, packed",) * 3,
    "parity": ("scratchpad, coupling",) * 3,
    "quickstart": ("coupling, rings, packed",) * 3,
    "reordering_tasks": ("sorting, coupled as a bag",) * 3,
    "rope_ablation": ("coupled RoPE, IDs times 1 to 5",) * 3,
    "scratchpad_addition": ("scratchpad, coupling",) * 3,
    "scratchpad_multiplication": ("scratchpad, coupling",) * 3,
    "start_ablation": ("random start", "wrapped start", "random start"),
    "table_init_ablation": (
        "normal rows, weight decay 0",
        "rotation rows, weight decay 0.3",
        "normal rows, weight decay 0",
    ),
    "theory_limits": (
        "theory, P=4, 14 digits",
        "theory, P=5, 30 digits",
        "theory, P=8, 254 digits",
    ),
    "ten_thousand_digits": ("rows of 2", "rows of 128", "rows of 50"),
    "thousand_digits": ("trained on 1-3", "trained on 1-12", "trained on 1-30"),
    "width_ablation": ("d_model=32", "d_model=64", "d_model=512"),
}


def test_every_sweep_outside_the_core_has_a_reference():
    known = set(TABLES["core"]) | set(TABLES["headline"])
    assert sorted(REFERENCES) == sorted(set(SWEEPS) - known)


@pytest.mark.parametrize("name", REFERENCES)
def test_the_first_cell_is_the_reference_and_the_claim_says_so(name):
    sweep = find_sweep(name)
    assert tuple(sweep.cells(scale)[0].label for scale in SCALES) == REFERENCES[name]
    assert "All cells are compared with the first" in " ".join(sweep.claim.split())


@pytest.mark.parametrize("scale", SCALES)
def test_two_hundred_digits_trains_nothing_of_its_own(scale):
    shared = [c for name in TABLES["core"] for c in find_sweep(name).cells(scale)]
    assert {c.id for c in find_sweep("two_hundred_digits").cells(scale)} <= {c.id for c in shared}


@pytest.mark.parametrize("scale", SCALES)
def test_ablations_of_one_axis_share_the_trials_of_their_base(scale):
    names = ("width", "num_examples", "start", "norm", "table_init", "attention_scale")
    shared = {find_sweep(f"{name}_ablation").cells(scale)[0].id for name in names}
    assert shared == {Cell(label="base", config=coupling(scale)).id}
    core_set = ["heads", "max_position"]
    core_set += {"smoke": ["format"], "laptop": ["encoding", "depth", "train_length"]}.get(
        scale, ["train_length"]
    )
    base = Cell(label="base", config=core(scale)).id
    for name in core_set:
        assert base in {cell.id for cell in find_sweep(f"{name}_ablation").cells(scale)}


# Sizes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SWEEPS)
def test_a_smoke_trial_is_a_second_of_work_at_most(name):
    for cell in find_sweep(name).cells("smoke"):
        task, data, optim = cell.config.task, cell.config.data, cell.config.optim
        trained = optim.num_steps * optim.batch_size * task.num_tokens(data.max_length)
        assert trained + _tested_tokens(cell.config) < 40_000, cell.label
        assert cell.config.model.d_model <= 32
        assert cell.config.model.num_layers <= 3


def _tested_tokens(config: TrialConfig) -> int:
    lengths = [n for values in evaluation_lengths(config).values() for n in values]
    seconds = config.eval.second_lengths or (None,)
    pairs = product(lengths, seconds)
    return config.eval.num_examples * sum(config.task.num_tokens(*pair) for pair in pairs)


# Paper scale --------------------------------------------------------------------------------------

# Rows of the table of settings: layers, heads, d_model, d_head, d_ff, steps, batch, learning rate,
# max_position, examples, longest trained length; then the largest tested length.
K, M = 1000, 1_000_000
PUBLISHED = [
    ("width_ablation", "d_model=512", (1, 4, 512, 128, 2048, 50 * K, K, 1e-4, 202, M, 30), 200),
    ("width_ablation", "d_model=64", (1, 4, 64, 128, 2048, 50 * K, K, 1e-4, 202, M, 30), 200),
    (
        "num_examples_ablation",
        "10 000 examples",
        (1, 4, 512, 128, 2048, 50 * K, K, 1e-4, 202, 10 * K, 30),
        200,
    ),
    ("operand_lengths", "coupling", (1, 4, 512, 128, 2048, 50 * K, K, 1e-4, 202, M, 30), 200),
    ("start_ablation", "random start", (1, 4, 512, 128, 2048, 50 * K, K, 1e-4, 202, M, 30), 200),
    (
        "norm_ablation",
        "LayerNorm after",
        (1, 4, 512, 128, 2048, 50 * K, K, 1e-4, 202, M, 30),
        200,
    ),
    (
        "table_init_ablation",
        "normal rows, weight decay 0",
        (1, 4, 512, 128, 2048, 50 * K, K, 1e-4, 202, M, 30),
        200,
    ),
    (
        "attention_scale_ablation",
        "NoPE, plain",
        (6, 8, 512, 64, 2048, 50 * K, K, 1e-4, 202, M, 30),
        200,
    ),
    (
        "five_hundred_digits",
        "trained on 1-160",
        (1, 2, 512, 256, 2048, M, 128, 1e-4, 1003, M, 160),
        500,
    ),
    (
        "five_hundred_digits",
        "trained on 1-40",
        (1, 2, 512, 256, 2048, M, 128, 1e-4, 1003, M, 40),
        500,
    ),
    (
        "attention_probe",
        "num_heads=2",
        (1, 2, 512, 256, 2048, 50 * K, 100, 5e-5, 17, 100 * K, 5),
        15,
    ),
    (
        "rope_ablation",
        "coupled RoPE, IDs times 1 to 5",
        (12, 8, 512, 64, 2048, 50 * K, K, 1e-4, 202, M, 40),
        200,
    ),
    (
        "multiplication_depth",
        "coupling, 4 layers",
        (4, 8, 512, 64, 2048, 50 * K, 200, 1e-4, 203, 50 * K, 40),
        200,
    ),
    (
        "multiplication_depth",
        "random-start APE, 3 layers",
        (3, 8, 512, 64, 2048, 50 * K, 800, 1e-4, 1023, 500 * K, 40),
        200,
    ),
    (
        "operands_ablation",
        "coupling, 3 layers",
        (3, 4, 512, 128, 2048, 50 * K, K, 1e-4, 102, M, 40),
        100,
    ),
    (
        "operands_ablation",
        "random-start APE, 6 layers",
        (6, 4, 512, 128, 2048, 50 * K, 800, 1e-4, 1023, M, 40),
        100,
    ),
    (
        "copy_reverse",
        "copy, coupling, 1 layer",
        (1, 4, 512, 128, 2048, 50 * K, K, 1e-4, 301, M, 40),
        300,
    ),
    (
        "copy_reverse",
        "reverse, random-start APE, 6 layers",
        (6, 8, 512, 128, 2048, 50 * K, 500, 1e-4, 601, M, 40),
        300,
    ),
    (
        "minesweeper",
        "shared table",
        (4, 8, 512, 64, 2048, 100 * K, 200, 1e-4, 15, 100 * K, 9),
        14,
    ),
    ("minesweeper", "NoPE", (6, 8, 512, 64, 2048, 100 * K, 200, 2e-4, 15, 100 * K, 9), 14),
    (
        "parity",
        "scratchpad, coupling",
        (6, 8, 512, 64, 2048, 50 * K, 20, 3e-5, 101, 10 * K, 20),
        100,
    ),
    (
        "parity",
        "no scratchpad, coupling",
        (1, 4, 512, 128, 2048, 50 * K, 20, 1e-4, 101, 10 * K, 20),
        100,
    ),
    (
        "scratchpad_addition",
        "scratchpad, coupling",
        (6, 8, 1024, 128, 2048, 50 * K, 400, 3e-5, 40, 500 * K, 10),
        30,
    ),
    (
        "scratchpad_multiplication",
        "scratchpad, coupling",
        (6, 8, 1024, 128, 2048, 50 * K, 250, 5e-5, 202, 500 * K, 10),
        30,
    ),
    (
        "architecture_study",
        "1 layer, 2 heads",
        (1, 2, 1024, 512, 2048, 50 * K, 400, 3e-5, 40, 500 * K, 10),
        30,
    ),
    (
        "architecture_study",
        "1 layer, 4 heads, d_model=64",
        (1, 4, 64, 16, 256, 50 * K, 400, 3e-5, 40, 500 * K, 10),
        30,
    ),
    (
        "architecture_study",
        "1 layer, 16 heads x 64",
        (1, 16, 1024, 64, 2048, 50 * K, 400, 3e-5, 40, 500 * K, 10),
        30,
    ),
    (
        "method_grid",
        "coupling, num_layers=6, num_heads=8",
        (6, 8, 512, 128, 2048, 50 * K, K, 1e-4, 202, M, 30),
        200,
    ),
    (
        "equal_compute",
        "coupling, 1 times the tokens",
        (6, 8, 512, 64, 2048, 50 * K, K, 1e-4, 202, M, 30),
        200,
    ),
    (
        "reordering_tasks",
        "sorting, coupled as a bag",
        (6, 8, 512, 128, 2048, 50 * K, 500, 1e-4, 301, M, 40),
        150,
    ),
    (
        "theory_limits",
        "coupling, 1 layer",
        (1, 4, 512, 128, 2048, 50 * K, K, 1e-4, 202, M, 30),
        200,
    ),
    (
        "found_coupling",
        "addition, backward-up (designed)",
        (1, 4, 512, 128, 2048, 50 * K, K, 1e-4, 202, M, 30),
        200,
    ),
    (
        "found_coupling",
        "copy, random-start APE",
        (6, 8, 512, 64, 2048, 50 * K, K, 1e-4, 603, M, 30),
        200,
    ),
]
CHOOSES = {"found_coupling": (31, 32, 33, 34)}  # near range of those that choose at paper scale


@pytest.mark.parametrize(("name", "label", "setting", "tested"), PUBLISHED)
def test_paper_scale_is_the_row_of_the_table(name, label, setting, tested):
    config = _cell(name, "paper", label)
    m, o, d = config.model, config.optim, config.data
    shape = (m.num_layers, m.num_heads, m.d_model, m.d_head, m.d_ff)
    training = (o.num_steps, o.batch_size, o.learning_rate)
    limits = (config.position.max_position, d.num_examples, d.max_length)
    assert shape + training + limits == setting
    assert max(config.eval.test_lengths) == tested
    assert m.attention_scale == "none"
    assert config.eval.near_lengths == CHOOSES.get(name, ())


def test_every_sweep_outside_the_core_is_checked_against_the_table():
    assert {name for name, *_ in PUBLISHED} == set(REFERENCES) - set(TABLES["beyond"])


FEW = ("operands_ablation", "copy_reverse", "minesweeper", "beyond_published", "method_grid")


@pytest.mark.parametrize("name", SWEEPS)
def test_paper_scale_has_as_many_runs_as_published(name):
    layout = find_sweep(name).seeds["paper"].partition("@")[0]
    assert layout == ("4" if name in FEW else "4x2")


def test_what_the_table_of_settings_says_beyond_its_columns():
    digits = _cell("five_hundred_digits", "paper", "trained on 1-160")
    assert (digits.model.norm, digits.model.norm_placement) == ("layer", "post")
    assert digits.optim.warmup_fraction * digits.optim.num_steps == 500
    assert digits.optim.final_lr_fraction == 0
    sums = _cell("scratchpad_addition", "paper", "scratchpad, coupling")
    assert sums.position.level_limits(2) == (40, 40)
    assert sums.eval.second_lengths == tuple(range(2, 31))
    assert sums.position.level_tables == "separate"
    products = _cell("scratchpad_multiplication", "paper", "scratchpad, coupling")
    assert products.position.max_positions == (70, 35, 70)
    boards = _cell("minesweeper", "paper", "shared table")
    assert (boards.data.min_length, boards.position.level_tables) == (5, "shared")
    other = _cell("scratchpad_addition", "paper", "scratchpad, coupling, trained to 13 x 13")
    assert (other.eval.test_lengths[0], other.eval.test_lengths[-1]) == (14, 30)
    assert (sums.optim.beta2, products.optim.beta2, other.optim.beta2) == (0.95,) * 3
    assert (sums.optim.batch_size, other.optim.batch_size) == (400, 200)
    assert boards.optim.beta2 == 0.999
    hints = _cell("encoding_ablation", "paper", "index hints")
    both = _cell("encoding_ablation", "paper", "index hints, random-start APE")
    assert (hints.optim.batch_size, both.optim.batch_size) == (400, 400)
    assert (hints.position.encoding, both.position.encoding) == ("none", "learned")
    assert (both.position.ids, both.position.start) == ("sequential", "random")
    assert both.position.max_position >= both.task.num_tokens(200)
    copy = _cell("copy_reverse", "paper", "copy, coupling, 1 layer")
    assert copy.eval.test_lengths == tuple(range(45, 301, 5))


# One sweep's own rules ----------------------------------------------------------------------------


@pytest.mark.parametrize("scale", SCALES)
def test_equal_compute_gives_every_method_the_same_number_of_tokens(scale):
    from sweeps.equal_compute import BUDGETS, mean_tokens

    cells = find_sweep("equal_compute").cells(scale)
    tokens = [c.config.optim.num_steps * mean_tokens(c.config) for c in cells]
    per_budget = len(cells) // len(BUDGETS[scale])
    for i, cell in enumerate(cells):
        reference = tokens[i - i % per_budget]
        half_a_step = 5 * mean_tokens(cell.config)  # steps are whole tens
        assert tokens[i] == pytest.approx(reference, abs=half_a_step), cell.label


def test_mean_tokens_are_those_of_sampled_batches():
    import torch

    from sweeps.equal_compute import ABACUS, mean_tokens

    for changes in ({}, {"task.index_hints": True}, ABACUS):
        config = override(TrialConfig(), changes)
        batch = config.task.sample_mixture(4000, 1, 30, torch.Generator().manual_seed(0))
        sampled = float((batch.tokens != 0).sum()) / len(batch.tokens)
        assert mean_tokens(config) == pytest.approx(sampled, rel=0.02)


def test_heads_of_the_architecture_study_share_one_total_width():
    for scale in SCALES:
        cells = find_sweep("architecture_study").cells(scale)
        grid = [cell.config.model for cell in cells if " x " not in cell.label]
        shape = grid[0].d_model
        totals = {m.num_heads * m.d_head for m in grid if m.d_model == shape}
        assert len(totals) == 1


def _cell(name: str, scale: str, label: str) -> TrialConfig:
    return {cell.label: cell.config for cell in find_sweep(name).cells(scale)}[label]

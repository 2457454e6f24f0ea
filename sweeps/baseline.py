"""The papers' base configurations as functions of the scale.

smoke: seconds, for tests; exercises the code, trains nothing useful. laptop: minutes on two cores;
the phenomenon is visible. paper: the published hyper-parameters (arXiv 2405.20671, appendix), for a
GPU; `analysis/settings.toml` lists every difference, cell by cell, with its reason.
Test sets have at most 2,000 examples per length instead of 100,000.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from pcore.cli.text import plural
from pcore.config import TrialConfig, override
from sweeps.engine.spec import REPLICATES, Scale

SMOKE: dict[str, Any] = {
    "model.num_heads": 2,
    "model.d_model": 32,
    "model.d_head": 16,
    "model.d_ff": 64,
    "data.min_length": 1,
    "data.max_length": 3,
    "data.num_examples": None,
    "optim.num_steps": 20,
    "optim.batch_size": 16,
    "optim.learning_rate": 1e-3,
    "position.max_position": 12,
    "eval.near_lengths": (4,),
    "eval.test_lengths": (5, 6),
    "eval.num_examples": 50,
}
# Found on the train and near ranges alone; docs/laptop_recipe.md tells how and what did not help.
LAPTOP: dict[str, Any] = {
    "model.num_heads": 4,
    "model.d_model": 64,
    "model.d_head": 32,
    "model.d_ff": 128,
    "model.norm_placement": "pre",
    "data.min_length": 1,
    "data.max_length": 12,
    "data.num_examples": None,
    "optim.num_steps": 2000,
    "optim.batch_size": 64,
    "optim.learning_rate": 2e-3,
    "optim.warmup_fraction": 0.05,
    "optim.final_lr_fraction": 0.0,
    "optim.beta2": 0.99,
    "optim.weight_decay": 0.3,
    "position.start": "wrapped",
    "position.table_init": "rotation",
    "position.max_position": 28,
    "eval.near_lengths": (13, 14, 15, 16, 17),
    "eval.test_lengths": (18, 20, 22, 24),
    "eval.num_examples": 1000,
}
# `best` chooses on the train range; `oracle` is there only to compare with the published numbers.
PAPER: dict[str, Any] = {"eval.checkpoints": ("last", "best", "oracle")}
# Attention that stays sharp as sequences grow.
LOG_LENGTH: dict[str, Any] = {
    "model.attention_scale": "log-length",
    "model.query_init": "zero",
}
# Sharper still in evaluation, so that EOS is found after long sums. Chosen on sums of two numbers
# and for these alone: a head that averages or counts, as other tasks need, is wrong even at trained
# lengths if its weights are sharper than in training.
SHARP = LOG_LENGTH | {"eval.attention_factor": 1.6}
# At laptop scale, what each arm needs to fit the trained lengths; chosen on these alone.
OTHERS: dict[str, dict[str, Any]] = {
    "NoPE": {"optim.num_steps": 2500, "optim.learning_rate": 3e-3},
    "random-start APE": {"optim.num_steps": 3000},
    "RoPE": {"optim.num_steps": 1800},
}
# Learning rate and weight decay that `packing_search` found for arms of `packing_ablation` at
# laptop scale, where these are better on the near range than what the arm began with.
TUNED: dict[str, tuple[float, float]] = {
    "rings, alone": (0.001321, 0.3),
    "table, alone": (0.001321, 0.3),
    "coupled RoPE, packed": (0.002385, 0.3),
    "coupled RoPE, alone": (0.008606, 0.3),
    "NoPE, alone": (0.00888, 0.3),
    "Abacus, packed": (0.002399, 1.0),
    "random-start APE, packed": (0.0035, 0.03),
    "random-start APE, alone": (0.0035, 0.03),
    "RoPE, alone": (0.0006541, 0.3),
}
# What fits in more runs: NoPE as `packing_search` found it (with 3e-3 and 2,500 steps one of two
# initial models of the core set did not fit, with either order of the data); with 2e-3 a run of
# three of random-start APE left a trained length at 85 %.
FITTING: dict[str, dict[str, Any]] = OTHERS | {
    "NoPE": {"optim.num_steps": 4000, "optim.learning_rate": TUNED["NoPE, alone"][0]},
    "random-start APE": {"optim.num_steps": 3000, "optim.learning_rate": 3e-3},
}
# At laptop scale, what coupling with one layer needs; chosen on the trained lengths alone.
ONE_LAYER: dict[str, Any] = {
    "model.d_head": 64,
    "model.query_init": "normal",
    "optim.num_steps": 2500,
}


def rings(*moduli: int) -> dict[str, Any]:
    """Residue rings of these sizes, with as many IDs as they tell apart, and the attention and
    weight decay that fit them.
    """
    return {
        "position.encoding": "residues",
        "position.moduli": moduli,
        "position.max_position": math.prod(moduli),
        "position.table_init": "normal",
        "model.attention_scale": "log-length",
        "optim.final_decay_fraction": 0.0,  # else attention stays too soft, or runs do not fit
    }


def level_rings(*moduli: int) -> dict[str, Any]:
    """The same rings on every level of a task with several, tested from starts as in training;
    queries start at zero.
    """
    own = {"position.max_positions": (), "position.test_policy": "wrapped"}
    return rings(*moduli) | own | {"model.query_init": "zero"}


# Packed rows and residue rings. Chosen on seeds from 1000 on, on the train and near ranges and on
# lengths that no sweep reports; the reported seeds begin at 300.
PACKED: dict[Scale, dict[str, Any]] = {
    "smoke": {
        **rings(3, 5, 7),
        "data.problems_per_row": (1, 2),
        "data.packing_begins": (0.5,),
        "eval.test_lengths": (5, 6, 8, 12),
    },
    "laptop": {
        **rings(5, 7, 9, 11, 13),
        "model.d_head": 64,
        "model.d_ff": 512,
        "data.problems_per_row": (1, 2, 4, 8, 16, 32),
        "data.packing_begins": (0.25, 0.3, 0.35, 0.4, 0.5),
        "optim.num_steps": 4000,
        "eval.test_lengths": (
            *(18, 24, 36, 48, 72, 96, 150, 200, 300, 500, 700, 1000, 1500, 2000, 3000),
        ),
    },
    "paper": {
        **rings(7, 9, 11, 13, 17, 19),
        "model.norm_placement": "pre",
        "data.num_examples": None,
        "data.problems_per_row": (1, 2, 4, 8),
        "data.packing_begins": (0.25, 0.3, 0.35),
        "optim.beta2": 0.99,
        "optim.weight_decay": 0.3,
        "eval.checkpoints": ("last",),
        "eval.test_lengths": (45, 60, 100, 200, 500, 1000, 2000, 5000, 10_000),
    },
}
# A table of the published size, what it has room for, and the longest sums that it holds.
TABLE_ROWS: dict[Scale, int] = {"smoke": 40, "laptop": 202, "paper": 202}
IN_TABLE: dict[Scale, int] = {"smoke": 2, "laptop": 8, "paper": 4}
LONGEST_TABLE: dict[Scale, int] = {"smoke": 12, "laptop": 200, "paper": 200}
ALONE: dict[str, Any] = {
    "data.problems_per_row": (1,),
    "data.packing_begins": (),
    "data.packed_overlap": 0.0,
}
ROWS: dict[str, dict[str, Any]] = {"packed": {}, "alone": ALONE}


def packed(scale: Scale) -> TrialConfig:
    """Addition with residue rings and packed rows, one layer: far beyond the trained lengths."""
    base = addition(scale)
    shared = {
        "position.start": "wrapped",
        "model.num_layers": 1,
        "eval.num_examples": {"smoke": 50, "laptop": 1000, "paper": 2000}[scale],
        "eval.length_budget": 200_000,
    }
    return override(base, with_log_base(base, PACKED[scale] | shared))


def with_log_base(base: TrialConfig, changes: dict[str, Any]) -> dict[str, Any]:
    """These changes, and logits that are as published on the longest sequence then trained on; with
    base e some runs miss sums like 9 + 9 + 1.
    """
    config = override(base, changes)
    return changes | {"model.log_base": config.task.num_tokens(config.data.max_length)}


def packed_and_alone(
    base: TrialConfig, changes: dict[str, Any], label: str
) -> dict[str, dict[str, Any]]:
    """Two arms: rows of several problems, which `changes` sets, and one per row as their control.

    label: of an arm, with `{rows}` where "packed" or "alone" goes.
    """
    changes = with_log_base(base, changes)
    return {label.format(rows=rows): changes | own for rows, own in ROWS.items()}


BASELINE_DEPTH: dict[Scale, int] = {"smoke": 2, "laptop": 3, "paper": 6}
# The row "depth" of the paper's settings: wider, with a smaller learning rate.
PAPER_DEPTH: dict[str, Any] = {
    "model.num_heads": 8,
    "model.d_model": 1024,
    "optim.learning_rate": 3e-5,
}
# The other methods of the methods figure: 8 heads that divide d_model 512 between them.
PAPER_BASELINE: dict[str, Any] = {"model.num_heads": 8, "model.d_head": 64}


def baseline_shape(scale: Scale) -> dict[str, Any]:
    """Depth and, at paper scale, heads of the other methods."""
    heads = PAPER_BASELINE if scale == "paper" else {}
    return {"model.num_layers": BASELINE_DEPTH[scale]} | heads


def addition(scale: Scale) -> TrialConfig:
    """Two-operand addition with coupled positions, one layer: the headline setting of the paper."""
    changes: dict[Scale, dict[str, Any]] = {"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER}
    return override(TrialConfig(), changes[scale])


def coupling(scale: Scale) -> TrialConfig:
    """The model that ablations of one axis vary: `addition`, at laptop scale with two layers.

    Cells that equal it are the same trials in all of these sweeps.
    """
    if scale == "paper":
        return addition(scale)
    return override(addition(scale), {"model.num_layers": 2} | SHARP)


# Of the sweeps that begin with `core`; nothing else used these.
CORE_SEEDS: Mapping[Scale, str] = {**REPLICATES, "laptop": "2x2@600"}


def core(scale: Scale) -> TrialConfig:
    """The model that the ablations of the core set vary.

    At laptop scale with packed rows and a table of the published size, tested to 200 digits as
    published; at other scales that of `coupling`.
    """
    if scale != "laptop":
        return coupling(scale)
    base = packed(scale)
    reach = tuple(n for n in base.eval.test_lengths if n <= LONGEST_TABLE[scale])
    changes = table_of_rows(scale) | fewer_in_a_row(scale) | {"eval.test_lengths": reach}
    return override(base, changes)


def table_of_rows(scale: Scale) -> dict[str, Any]:
    """A learned table of the published size, as changes to `packed(scale)`."""
    return {
        "position.encoding": "learned",
        "position.table_init": "rotation",
        "position.moduli": (),
        "position.max_position": TABLE_ROWS[scale],
    }


def fewer_in_a_row(scale: Scale) -> dict[str, Any]:
    """As many problems per row as such a table has room for, as changes to `packed(scale)`."""
    data = packed(scale).data
    few = tuple(n for n in data.problems_per_row if n <= IN_TABLE[scale])
    return {
        "data.problems_per_row": few,
        "data.packing_begins": data.packing_begins[: len(few) - 1],
    }


# Abacus embeddings (arXiv 2405.17399): numbers reversed and unpadded, an ID for each digit.
ABACUS: dict[str, Any] = {
    "task.zero_pad": False,
    "task.reverse_query": True,
    "position.ids": "abacus",
    "position.start": "random",
    "position.table_init": "normal",
}


def methods(scale: Scale) -> dict[str, dict[str, Any]]:
    """The position methods of the paper by name, as changes to `addition(scale)`.

    Random-start APE is the learned table with sequential IDs; its max_position must hold the
    longest tested sequence.
    """
    base = addition(scale)
    rows = 603 if scale == "paper" else 3 * max(base.eval.test_lengths) + 4
    return {
        "coupling": {},
        **without_coupling(base, rows),
        "RoPE": {
            "position.encoding": "rotary",
            "position.ids": "sequential",
            "position.start": "fixed",
        },
    }


def uncoupled(scale: Scale, base: TrialConfig) -> dict[str, dict[str, Any]]:
    """NoPE, random-start APE and RoPE as changes to `base`, each with the depth and, at laptop
    scale, the steps with which it fits the trained lengths.

    Where `base` has longer tests than `addition(scale)`, the table of random-start APE holds them;
    training keeps its starts, since each row of a table has to be trained.
    """
    longest = max(base.eval.test_lengths)
    points: dict[str, dict[str, Any]] = {}
    for name, changes in methods(scale).items():
        if name == "coupling":
            continue
        if name == "random-start APE" and longest > max(addition(scale).eval.test_lengths):
            rows, task = changes["position.max_position"], base.task
            changes |= {
                "position.max_position": task.num_tokens(longest),
                "position.max_start": rows - task.num_tokens(base.data.max_length),
            }
        own = FITTING[name] if scale == "laptop" else {}
        points[name] = changes | baseline_shape(scale) | own
    return points


FIRE: dict[str, Any] = {
    "position.encoding": "fire",
    "position.ids": "sequential",
    "position.start": "fixed",
}


def other_encodings(base: TrialConfig) -> dict[str, dict[str, Any]]:
    """Index hints, coupled RoPE, and encodings of other groups with their own IDs, as changes to
    `base`.

    Randomized positions draw from twice as many IDs as the longest tested sequence has tokens.
    """
    longest = base.task.num_tokens(max(base.eval.test_lengths))
    plain = FIRE | {"position.table_init": "normal", "position.max_position": longest}
    return {
        "index hints": {
            "position.encoding": "none",
            "task.index_hints": True,
            "task.num_hints": max(base.eval.test_lengths) + 4,
        },
        "coupled RoPE": {
            "position.encoding": "rotary",
            "position.start": "random",
            "position.id_scale_max": 5,
        },
        "sinusoidal": plain | {"position.encoding": "sinusoidal"},
        "ALiBi": plain | {"position.encoding": "alibi"},
        "T5 bias": plain | {"position.encoding": "t5"},
        "FIRE": plain,
        "randomized positions": {
            "position.ids": "randomized",
            "position.start": "random",
            "position.table_init": "normal",
            "position.max_position": 2 * longest,
        },
    }


def trained_to(base: TrialConfig, longest: int) -> dict[str, Any]:
    """Training up to this length, as changes to `base`; what follows up to the end of its near
    range, if it has one, is near.
    """
    last = max(base.eval.near_lengths, default=0)
    return {"data.max_length": longest, "eval.near_lengths": tuple(range(longest + 1, last + 1))}


def constructed(num_bits: int) -> dict[str, Any]:
    """The theorem's model with P = num_bits, as changes to a trained configuration."""
    return {
        "model.kind": "constructed",
        "model.num_bits": num_bits,
        "optim.num_steps": 0,
        "eval.attention_factor": 1.0,
    }


def sharp(scale: Scale) -> dict[str, Any]:
    """Sharp attention for coupling arms that add two numbers; as published (plain) at paper
    scale.
    """
    return {} if scale == "paper" else SHARP


def log_length(scale: Scale) -> dict[str, Any]:
    """Attention of coupling arms of other tasks, in evaluation that of training; as published
    (plain) at paper scale.
    """
    return {} if scale == "paper" else LOG_LENGTH


def coupling_by_depth(
    depths: Iterable[int], attention: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Coupling with each of these numbers of layers and this attention, as arms in this order."""
    return {
        f"coupling, {plural(depth, 'layer')}": {"model.num_layers": depth, **attention}
        for depth in depths
    }


def without_coupling(config: TrialConfig, max_position: int = 0) -> dict[str, dict[str, Any]]:
    """NoPE and random-start APE on the task of `config`, as changes to `config`.

    max_position: of APE, where published; 0 = as many as the longest tested sequence has tokens.
    """
    longest = config.task.num_tokens(max(config.eval.test_lengths))
    return {
        "NoPE": {"position.encoding": "none"},
        "random-start APE": {
            "position.ids": "sequential",
            "position.start": "random",
            "position.max_position": max_position or longest,
        },
    }


# The follow-up (arXiv 2410.15787): more levels of IDs, tests on a grid of two lengths.
TWO_LENGTHS: dict[Scale, dict[str, Any]] = {
    "smoke": {
        "model.num_layers": 2,
        "data.max_length": 2,
        "eval.near_lengths": (3,),
        "eval.test_lengths": (4,),
        "eval.num_examples": 20,
    },
    "laptop": {
        "model.num_layers": 2,
        "data.max_length": 4,
        "eval.near_lengths": (5,),
        "eval.num_examples": 300,
    },
    "paper": PAPER_DEPTH
    | {
        "model.num_layers": 6,
        "data.max_length": 10,
        "data.num_examples": 500_000,
        "optim.beta2": 0.95,  # of its scripts since September 2024; the papers name no betas
        "eval.test_lengths": tuple(range(11, 31)),
        "eval.num_examples": 1000,
    },
}
MANY_OPERANDS: dict[Scale, dict[str, Any]] = {
    "smoke": {"task.num_operands": 3, "eval.second_lengths": (2, 3, 4)},
    "laptop": {
        "task.num_operands": 4,
        "position.max_position": 14,
        "eval.test_lengths": (6, 8),
        "eval.second_lengths": (2, 3, 4, 5, 6, 8),
    },
    "paper": {
        "task.num_operands": 10,
        "optim.batch_size": 400,
        "position.max_position": 40,
        "eval.second_lengths": tuple(range(2, 31)),
    },
}


def many_operands(scale: Scale) -> TrialConfig:
    """Addition of 2 to m operands with a scratchpad: the headline setting of the follow-up."""
    levels = {
        "task.scratchpad": True,
        "task.min_operands": 2,
        "position.level_tables": "separate",
    }
    return override(addition(scale), TWO_LENGTHS[scale] | MANY_OPERANDS[scale] | levels)

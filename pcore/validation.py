"""Refuses invalid configurations before any compute, with a sentence the user can act on."""

import math

from pcore.batch import Rows, phases
from pcore.config import (
    DataConfig,
    ModelConfig,
    PositionConfig,
    TrialConfig,
    flatten,
    format_numbers,
)
from pcore.encodings import ENCODINGS, Encoding, find_encoding
from pcore.encodings.disjoint_starts import needed_ids
from pcore.encodings.position_ids import (
    draws_apart,
    level_names,
    max_relative_ids,
    num_levels,
)
from pcore.evaluation import evaluation_lengths
from pcore.mixing import Attention
from pcore.model import mixing_parts
from pcore.registry import name_of
from pcore.tasks import TASKS, Task
from pcore.theory.constructed import check_constructed
from pcore.vocab import DIGITS

CHECKPOINTS = ("last", "best", "oracle")
MAX_LENGTH = 10_000  # the layout of an example is built in plain Python
# Of what is built in memory or counted to; nobody means more.
LARGEST = {
    "model.num_layers": 1000,
    "model.num_heads": 10_000,
    "model.d_model": 100_000,
    "model.d_head": 100_000,
    "model.d_ff": 1_000_000,
}
MAX_LOG_BASE = 1_000_000  # keys that are visible at once


def validate(config: TrialConfig) -> None:
    """Raise ValueError with what is wrong, its value and the limit."""
    check_sizes(config)
    if config.model.kind == "constructed":
        check_constructed(config)
    elif config.model.num_bits:
        raise ValueError(f"model.num_bits={config.model.num_bits} needs model.kind=constructed")
    _check_numbers(config)
    _check_ranges(config)
    _check_positions(config)
    _check_mixing(config)
    _check_packing(config)


def check_sizes(config: TrialConfig) -> None:
    """Raise ValueError for sizes that cannot be meant, before anything of that size is built."""
    flat = flatten(config)
    for name, value in flat.items():
        limit = LARGEST.get(name, MAX_LENGTH if name.startswith("task.") else math.inf)
        if isinstance(value, int) and value > limit:
            raise ValueError(f"{name}={value} is above {limit}")
    e = config.eval
    for name, values in {
        "data.max_length": (config.data.max_length,),
        "eval.train_lengths": e.train_lengths,
        "eval.near_lengths": e.near_lengths,
        "eval.test_lengths": e.test_lengths,
        "eval.second_lengths": e.second_lengths,
    }.items():
        if max(values, default=0) > MAX_LENGTH:
            raise ValueError(f"{name}={max(values)} is above {MAX_LENGTH}")


def check_test_length(config: TrialConfig, length: int) -> None:
    """Raise ValueError if a model of this configuration cannot be tested at `length`."""
    config.task.check_length(length)
    position, encoding = config.position, find_encoding(config.position.encoding)
    fixed = position.test_policy == "fixed" and position.ids != "randomized"
    if encoding.uses_ids and (encoding.bounded or not fixed):
        second = config.task.default_second(length)
        _check_length(config, length, second, position.test_start if fixed else 1)


def _check_numbers(config: TrialConfig) -> None:
    p, m, o, d, e = config.position, config.model, config.optim, config.data, config.eval
    at_least_one = {
        "model.num_layers": m.num_layers,
        "model.num_heads": m.num_heads,
        "model.d_model": m.d_model,
        "model.d_head": m.d_head,
        "model.d_ff": m.d_ff,
        "model.num_loops": m.num_loops,
        "data.min_length": d.min_length,
        "optim.batch_size": o.batch_size,
        "eval.num_examples": e.num_examples,
        "eval.num_checks": e.num_checks,
        "position.max_position": p.max_position,
        "position.id_scale_max": p.id_scale_max,
        "position.test_start": p.test_start,
    }
    if m.kind == "trained":
        at_least_one["optim.num_steps"] = o.num_steps
    for name, value in at_least_one.items():
        if value < 1:
            raise ValueError(f"{name}={value} is below 1")
    positive = {
        "optim.learning_rate": o.learning_rate,
        "optim.eps": o.eps,
        "position.rotary_base": p.rotary_base,
        "eval.attention_factor": e.attention_factor,
    }
    for name, value in positive.items():
        if not value > 0:
            raise ValueError(f"{name}={value} must be above 0")
    fractions = {
        "optim.warmup_fraction": o.warmup_fraction,
        "optim.final_lr_fraction": o.final_lr_fraction,
        "optim.final_decay_fraction": o.final_decay_fraction,
        "optim.beta1": o.beta1,
        "optim.beta2": o.beta2,
    }
    for name, value in fractions.items():
        if not 0 <= value <= 1:
            raise ValueError(f"{name}={value} must be between 0 and 1")
    for name, value in {
        "position.max_start": p.max_start,
        "eval.length_budget": e.length_budget,
        "optim.weight_decay": o.weight_decay,
        "optim.grad_clip": o.grad_clip,
    }.items():
        if not value >= 0:
            raise ValueError(f"{name}={value} is below 0")
    for name, values in {
        "position.max_positions": p.max_positions,
        "eval.second_lengths": e.second_lengths,
    }.items():
        if values and min(values) < 1:
            raise ValueError(f"{name} holds {min(values)}, which is below 1")
    if m.log_base and not 2 <= m.log_base <= MAX_LOG_BASE:
        raise ValueError(f"model.log_base={m.log_base} is neither 0 nor in 2-{MAX_LOG_BASE:,}")
    if m.log_base and m.attention_scale != "log-length":
        raise ValueError(f"model.log_base={m.log_base} needs model.attention_scale=log-length")
    if d.max_length < d.min_length:
        raise ValueError(f"data.max_length={d.max_length} is below data.min_length={d.min_length}")
    if d.num_examples is not None and d.num_examples < o.batch_size:
        raise ValueError(
            f"data.num_examples={d.num_examples} is below optim.batch_size={o.batch_size}"
        )
    if len(set(e.checkpoints)) != len(e.checkpoints) or not e.checkpoints:
        raise ValueError(
            f"eval.checkpoints={e.checkpoints} must name different policies, at least one"
        )
    for name in e.checkpoints:
        if name not in CHECKPOINTS:
            raise ValueError(f"eval.checkpoints: {name!r} is not one of: {', '.join(CHECKPOINTS)}")
    if "oracle" in e.checkpoints and not e.test_lengths:
        raise ValueError("eval.checkpoints: 'oracle' needs eval.test_lengths")


def _check_mixing(config: TrialConfig) -> None:
    model, encoding = config.model, find_encoding(config.position.encoding)
    if len(model.mixer) not in (1, model.num_layers):
        raise ValueError(
            f"model.mixer has {len(model.mixer)} entries: give one for all layers, or one for each "
            f"of the {model.num_layers}"
        )
    parts = mixing_parts(model)
    for part in parts.values():
        part.check(model)
    if model.input_injection and model.num_loops == 1:
        raise ValueError("model.input_injection has no meaning with model.num_loops=1")
    if any(issubclass(part, Attention) for part in parts.values()):
        return
    mixers = ",".join(model.mixer)
    for name in ("attention", "attention_scale", "attention_sink", "query_init"):
        if (value := getattr(model, name)) != getattr(ModelConfig(), name):
            raise ValueError(f"model.{name}={value} has no meaning with model.mixer={mixers}")
    in_attention = encoding.uses_ids and encoding.embed is Encoding.embed
    if in_attention and ":" not in mixers:
        raise ValueError(
            f"position.encoding={config.position.encoding} acts in attention, and "
            f"model.mixer={mixers} has none"
        )


def _check_ranges(config: TrialConfig) -> None:
    ranges = evaluation_lengths(config)
    low, high = config.data.min_length, config.data.max_length
    for length in ranges["train"]:
        if not low <= length <= high:
            raise ValueError(
                f"eval.train_lengths: {length} is outside the train range {low}-{high}"
            )
    for name in ("near", "test"):
        for length in ranges[name]:
            if low <= length <= high:
                raise ValueError(
                    f"eval.{name}_lengths: {length} lies in the train range {low}-{high}"
                )
    if both := set(ranges["near"]) & set(ranges["test"]):
        raise ValueError(
            f"eval.near_lengths and eval.test_lengths overlap at length {min(both)}: "
            "tuning would see the test range"
        )
    for name, lengths in ranges.items():
        if len(set(lengths)) != len(lengths):
            raise ValueError(f"eval.{name}_lengths names a length twice")
    if config.eval.second_lengths and len(config.task.size_names) < 2:
        raise ValueError("eval.second_lengths is set, but the task has only one length")
    for length in (high, *(length for lengths in ranges.values() for length in lengths)):
        config.task.check_length(length)
    layout = config.task.layout(config.task.largest_shape(high))
    if layout.num_query >= len(layout.sources):
        raise ValueError(f"{task_name(config.task)} at length {high} has an empty response")


def _check_positions(config: TrialConfig) -> None:
    position, task = config.position, config.task
    encoding = find_encoding(position.encoding)
    if position.moduli and position.encoding in ENCODINGS and position.encoding != "residues":
        raise ValueError(
            f"position.moduli={format_numbers(position.moduli)} has no meaning with "
            f"position.encoding={position.encoding}: use position.encoding=residues"
        )
    if not encoding.uses_ids:
        encoding.check(position, config.model, 1)
        return
    if not task.has_coupling and position.ids in ("coupled", "abacus"):
        raise ValueError(
            f"position.ids={position.ids} does not fit this format of the task, which has no "
            "coupling: use position.ids=sequential or position.encoding=none"
        )
    if position.ids == "abacus" and not set(DIGITS) & set(task.vocab.symbols):
        raise ValueError(f"position.ids=abacus numbers digits, {task_name(task)} has none")
    if position.ids == "randomized":
        _check_randomized(position)
    if position.candidate != "all" and position.ids != "candidates":
        raise ValueError(
            f"position.candidate={position.candidate} has no meaning with "
            f"position.ids={position.ids}: use position.ids=candidates"
        )
    if position.id_scale_max > 1 and encoding.bounded:
        raise ValueError(
            f"position.id_scale_max={position.id_scale_max} needs an encoding without a largest "
            f"ID, position.encoding={position.encoding} has one"
        )
    encoding.check(position, config.model, num_levels(task, position))
    _check_reach(config, encoding.bounded)


def _check_randomized(position: PositionConfig) -> None:
    default = PositionConfig()
    for name in ("start", "max_start", "test_policy", "test_start"):
        if (value := getattr(position, name)) != getattr(default, name):
            raise ValueError(
                f"position.{name}={value} has no meaning with position.ids=randomized, which draws "
                f"every ID: leave it at {getattr(default, name)}"
            )


def _check_reach(config: TrialConfig, bounded: bool) -> None:
    """Every ID of training and evaluation must fit where something holds it to max_position."""
    position, data = config.position, config.data
    randomized = position.ids == "randomized"
    if bounded or randomized or position.start != "fixed":
        trained = config.task.trained_seconds(data.min_length, data.max_length)
        _check_length(config, data.max_length, max(trained) if trained else None, start=1)
    if bounded or randomized or position.test_policy != "fixed":
        start = position.test_start if position.test_policy == "fixed" else 1
        longest = max(max(lengths) for lengths in evaluation_lengths(config).values() if lengths)
        _check_length(config, longest, max(config.eval.second_lengths, default=None), start)


def _check_length(config: TrialConfig, length: int, second: int | None, start: int) -> None:
    position, task = config.position, config.task
    largest = max_relative_ids(task, position.ids, length, second, position.candidate)
    limits = position.level_limits(len(largest))
    field = "max_positions" if position.max_positions else "max_position"
    value = format_numbers(limits) if position.max_positions else position.max_position
    for level, (limit, relative) in enumerate(zip(limits, largest, strict=True)):
        if limit >= relative + start:
            continue
        where = f"{task_name(task)} at length {length}"
        if second is not None and len(task.size_names) > 1:
            where += f" and {task.size_names[1]} {second}"
        name = level_names(task, position)[level]
        below = f" on level {name!r}" if len(largest) > 1 else ""
        raise ValueError(
            f"position.{field}={value} is below {relative + start}{below}, which {where} needs"
        )


def _check_packing(config: TrialConfig) -> None:
    """Raise ValueError, in one sentence, for packed rows that cannot work."""
    data, begins = config.data, config.data.packing_begins
    if not data.problems_per_row or min(data.problems_per_row) < 1:
        raise ValueError("data.problems_per_row must hold numbers from 1 on, at least one")
    if len(begins) != len(data.problems_per_row) - 1:
        raise ValueError(
            f"data.packing_begins has {len(begins)} entries, data.problems_per_row="
            f"{format_numbers(data.problems_per_row)} needs {len(data.problems_per_row) - 1}: the "
            "share of the steps from which each number but the first acts"
        )
    if list(begins) != sorted(set(begins)) or not all(0 < share < 1 for share in begins):
        raise ValueError(f"data.packing_begins={format_numbers(begins)} must rise, between 0 and 1")
    if not 0 <= data.single_problems < 1:
        raise ValueError(f"data.single_problems={data.single_problems} must be in [0, 1)")
    if max(data.problems_per_row) == 1:
        default = DataConfig()
        for name in ("single_problems", "packed_order"):
            if (value := getattr(data, name)) != getattr(default, name):
                raise ValueError(
                    f"data.{name}={value} has no meaning with one problem in each row: "
                    f"leave it at {getattr(default, name)}"
                )
        return
    for rows, _ in phases(config):
        _check_batch(config, rows)
    _check_ids(config, max(data.problems_per_row))


def _check_batch(config: TrialConfig, rows: Rows) -> None:
    share, size = config.data.single_problems, config.optim.batch_size
    if not rows.num_packed:
        raise ValueError(
            f"data.problems_per_row: no row of {rows.per_row} problems can be made of "
            f"optim.batch_size={size} with data.single_problems={share}"
        )
    if not share and rows.num_packed < size:
        raise ValueError(
            f"optim.batch_size={size} counts problems and is not a multiple of {rows.per_row} "
            "(data.problems_per_row): with data.single_problems above 0 the rest stands alone"
        )


def _check_ids(config: TrialConfig, most: int) -> None:
    """Every ID of a row of `most` problems of the largest length must fit."""
    data, position, task = config.data, config.position, config.task
    encoding, by_row = find_encoding(position.encoding), data.packed_order == "row"
    if by_row and not (encoding.uses_ids and position.ids in ("sequential", "randomized")):
        raise ValueError(
            "data.packed_order=row counts IDs through a row, which has no meaning with "
            f"position.ids={position.ids} and position.encoding={position.encoding}"
        )
    if not encoding.uses_ids:
        return
    if position.ids == "randomized" and not by_row:
        raise ValueError(
            "position.ids=randomized draws one sorted subset of IDs for a row of problems: "
            "use data.packed_order=row"
        )
    apart = draws_apart(position, data)
    if apart and position.max_start:
        raise ValueError(
            f"position.max_start={position.max_start} cannot hold where the ranges of "
            "several problems in a row are kept apart: use position.max_position"
        )
    if not (apart or by_row):
        return  # every problem counts from the same place
    trained = task.trained_seconds(data.min_length, data.max_length)
    second = max(trained) if trained else None
    largest = max_relative_ids(task, position.ids, data.max_length, second, position.candidate)
    free = not (encoding.bounded or position.ids == "randomized" or position.start != "fixed")
    for limit, relative in zip(position.level_limits(len(largest)), largest, strict=True):
        needed = most * (relative + 1)
        if apart:
            needed = needed_ids([relative] * most, position.start == "wrapped")
        if needed > limit and not free:
            raise ValueError(
                f"position.max_position={limit} is below {needed}, which {most} problems of "
                f"{name_of(type(task), TASKS)} at length {data.max_length} in a row need "
                "(data.problems_per_row)"
            )


def task_name(task: Task) -> str:
    """The name of a task as it stands in messages."""
    return name_of(type(task), TASKS)

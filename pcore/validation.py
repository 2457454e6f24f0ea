"""Refuses invalid configurations before any compute, with a sentence the user can act on.

Bounds of single fields are declared with them (`pcore.config.option`); here is what several fields
say together: `MEANING` lists the fields that only some settings read, the functions below the rest.
"""

from collections.abc import Callable
from typing import TypeAlias

import torch

from pcore.config import (
    TrialConfig,
    check_bounds,
    flatten,
    format_numbers,
)
from pcore.encodings import ENCODINGS, Encoding, find_encoding
from pcore.encodings.apart import needed_ids
from pcore.encodings.position_ids import (
    draws_apart,
    level_names,
    max_relative_ids,
    never_alone,
    num_levels,
)
from pcore.evaluation import evaluation_lengths
from pcore.mixing import Attention
from pcore.model import mixing_parts
from pcore.registry import name_of
from pcore.settings import MAX_LENGTH, PositionConfig
from pcore.tasks import TASKS, Task
from pcore.theory.exactness import check_constructed
from pcore.vocab import DIGITS

CHECKPOINTS = ("last", "best", "oracle")

# Settings that decide whether others mean anything: when they do, which, and what to do if they do
# not ("" = leave them at their defaults).
Meaning: TypeAlias = tuple[str, Callable[[TrialConfig], bool], tuple[str, ...], str]


def _has_attention(config: TrialConfig) -> bool:
    return any(issubclass(part, Attention) for part in mixing_parts(config.model).values())


def _has_rings(config: TrialConfig) -> bool:
    return config.position.encoding not in ENCODINGS or config.position.encoding == "residues"


def _starts_at_random(config: TrialConfig) -> bool:
    return "random" in (config.position.start, config.position.test_policy)


ACTS = ("embed", "rotate", "bias")  # by which an encoding acts
IN_ATTENTION = ("attention", "attention_scale", "attention_sink", "query_init")
OF_STARTS = ("start", "max_start", "test_policy", "test_start")
MEANING: tuple[Meaning, ...] = (
    ("model.kind", lambda c: c.model.kind == "constructed", ("num_bits",), "constructed"),
    (
        "model.attention_scale",
        lambda c: c.model.attention_scale == "log-length",
        ("log_base",),
        "log-length",
    ),
    ("model.num_loops", lambda c: c.model.num_loops > 1, ("input_injection",), ""),
    ("model.mixer", _has_attention, IN_ATTENTION, ""),
    (
        "data.problems_per_row",
        lambda c: max(c.data.problems_per_row, default=1) > 1,
        ("packed_order", "packed_overlap"),
        "",
    ),
    ("position.encoding", _has_rings, ("moduli",), "residues"),
)
# The same where IDs have any effect: arms without an encoding keep the settings of the others.
MEANING_OF_IDS: tuple[Meaning, ...] = (
    ("position.ids", lambda c: c.position.ids != "randomized", OF_STARTS, ""),
    ("position.ids", lambda c: c.position.ids == "candidates", ("candidate",), "candidates"),
    ("position.start", _starts_at_random, ("max_start",), "random"),
    ("position.test_policy", lambda c: c.position.test_policy == "fixed", ("test_start",), "fixed"),
)


def validate(config: TrialConfig) -> None:
    """Raise ValueError with what is wrong, its value and the limit."""
    check_bounds(config)
    if config.model.kind == "constructed":
        check_constructed(config)
    elif config.optim.num_steps < 1:
        raise ValueError(f"optim.num_steps={config.optim.num_steps} is below 1")
    _check_mixers(config)
    _check_meaning(config, MEANING)
    _check_evaluation(config)
    _check_ranges(config)
    _check_positions(config)
    if any(rows > 1 for rows in config.data.problems_per_row) or config.data.packing_begins:
        _check_packing(config)
    elif not config.data.problems_per_row:
        raise ValueError("data.problems_per_row must hold at least one number")


def check_test_length(config: TrialConfig, length: int, second: int | None = None) -> int | None:
    """The second length (operands ...) of a test at `length`, by default the task's.

    Raises ValueError if a model of this configuration cannot be tested there.
    """
    for value, name in ((length, "length"), (second, "second length")):
        if value is not None and not 1 <= value <= MAX_LENGTH:
            raise ValueError(f"{name} {value} is not in 1-{MAX_LENGTH}")
    if second is not None and len(config.task.size_names) < 2:
        raise ValueError(f"second length {second}: {task_name(config.task)} has only one length")
    config.task.check_length(length)
    second = config.task.default_second(length) if second is None else second
    position = config.position
    if limits_ids(position, position.test_policy):
        _check_length(config, length, second, first_id(position))
    return second


def limits_ids(position: PositionConfig, policy: str) -> bool:
    """Whether something holds IDs to max_position if counting starts so: a table, the draw of a
    start, or that of randomized IDs, whether or not anything reads these.
    """
    encoding = find_encoding(position.encoding)
    bounded = encoding.uses_ids and (encoding.bounded or policy != "fixed")
    return bounded or position.ids == "randomized"


def first_id(position: PositionConfig) -> int:
    """The smallest ID at which counting starts in evaluation."""
    return position.test_start if position.test_policy == "fixed" else 1


def task_name(task: Task) -> str:
    """The name of a task as it stands in messages."""
    return name_of(type(task), TASKS)


DEFAULTS = TrialConfig()


def _check_meaning(config: TrialConfig, table: tuple[Meaning, ...]) -> None:
    for decisive, has_meaning, leaves, wanted in table:
        group = decisive.partition(".")[0]
        given, default = getattr(config, group), getattr(DEFAULTS, group)
        for leaf in () if has_meaning(config) else leaves:
            if getattr(given, leaf) != getattr(default, leaf):
                flat, usual = flatten(config), flatten(DEFAULTS)[f"{group}.{leaf}"]
                instead = f"use {decisive}={wanted}" if wanted else f"leave it at {usual}"
                raise ValueError(
                    f"{group}.{leaf}={flat[f'{group}.{leaf}']} has no meaning with "
                    f"{decisive}={flat[decisive]}: {instead}"
                )


def _check_evaluation(config: TrialConfig) -> None:
    data, e, batch_size = config.data, config.eval, config.optim.batch_size
    if config.model.log_base == 1:
        raise ValueError("model.log_base=1 is neither 0 nor at least 2")
    if data.num_examples is not None and data.num_examples < batch_size:
        raise ValueError(
            f"data.num_examples={data.num_examples} is below optim.batch_size={batch_size}"
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


def _check_ranges(config: TrialConfig) -> None:
    low, high = config.data.min_length, config.data.max_length
    if high < low:
        raise ValueError(f"data.max_length={high} is below data.min_length={low}")
    ranges = evaluation_lengths(config)
    for name, lengths in ranges.items():
        for length in lengths:
            if (low <= length <= high) != (name == "train"):
                where = "is outside" if name == "train" else "lies in"
                raise ValueError(
                    f"eval.{name}_lengths: {length} {where} the train range {low}-{high}"
                )
        if len(set(lengths)) != len(lengths):
            raise ValueError(f"eval.{name}_lengths names a length twice")
    if both := set(ranges["near"]) & set(ranges["test"]):
        raise ValueError(
            f"eval.near_lengths and eval.test_lengths overlap at length {min(both)}: "
            "tuning would see the test range"
        )
    if config.eval.second_lengths:
        if len(config.task.size_names) < 2:
            raise ValueError("eval.second_lengths is set, but the task has only one length")
        if config.task.trained_seconds(low, high) is None:
            name = task_name(config.task)
            raise ValueError(f"eval.second_lengths is set, but {name} has no trained_seconds()")
    for length in (high, *(length for lengths in ranges.values() for length in lengths)):
        config.task.check_length(length)
    layout = config.task.layout(config.task.largest_shape(high))
    if layout.num_query >= len(layout.sources):
        raise ValueError(f"{task_name(config.task)} at length {high} has an empty response")


def _check_mixers(config: TrialConfig) -> None:
    model, encoding = config.model, find_encoding(config.position.encoding)
    if len(model.mixer) not in (1, model.num_layers):
        raise ValueError(
            f"model.mixer has {len(model.mixer)} entries: give one for all layers, or one for each "
            f"of the {model.num_layers}"
        )
    mixers = ",".join(model.mixer)
    for part in mixing_parts(model).values():
        part.check(model)
    in_attention = encoding.uses_ids and encoding.embed is Encoding.embed
    if in_attention and not _has_attention(config) and ":" not in mixers:
        raise ValueError(
            f"position.encoding={config.position.encoding} acts in attention, and "
            f"model.mixer={mixers} has none"
        )


# Position IDs -------------------------------------------------------------------------------------


def _check_positions(config: TrialConfig) -> None:
    position, task = config.position, config.task
    encoding = find_encoding(position.encoding)
    levels = num_levels(task, position)
    own = [c for c in encoding.__mro__ if c not in Encoding.__mro__]
    if not any("uses_ids" in vars(c) for c in own):
        for name in ACTS:
            if any(name in vars(c) for c in own):
                raise ValueError(
                    f"position.encoding={position.encoding} has {name}() and does not say whether "
                    "it reads IDs: set uses_ids = True in the class"
                )
    position.level_limits(levels)
    if encoding.uses_ids:
        _check_stream(config)
        _check_meaning(config, MEANING_OF_IDS)
        if position.id_scale_max > 1 and encoding.bounded:
            raise ValueError(
                f"position.id_scale_max={position.id_scale_max} needs an encoding without a "
                f"largest ID, position.encoding={position.encoding} has one"
            )
    encoding.check(position, config.model, levels if encoding.uses_ids else 1)
    _check_reach(config)


def _check_stream(config: TrialConfig) -> None:
    ids, task = config.position.ids, config.task
    if not task.has_coupling and ids in ("coupled", "abacus"):
        raise ValueError(
            f"position.ids={ids} does not fit this format of the task, which has no "
            "coupling: use position.ids=sequential or position.encoding=none"
        )
    if ids == "abacus" and not set(DIGITS) & set(task.vocab.symbols):
        raise ValueError(f"position.ids=abacus numbers digits, {task_name(task)} has none")


def _check_reach(config: TrialConfig) -> None:
    """Every ID of training and evaluation must fit where something holds it to max_position."""
    position, data = config.position, config.data
    if limits_ids(position, position.start):
        trained = config.task.trained_seconds(data.min_length, data.max_length)
        _check_length(config, data.max_length, max(trained) if trained else None, start=1)
    if limits_ids(position, position.test_policy):
        longest = max(max(lengths) for lengths in evaluation_lengths(config).values() if lengths)
        second = max(config.eval.second_lengths, default=None)
        _check_length(config, longest, second, first_id(position))


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


# Packed rows --------------------------------------------------------------------------------------


def _check_packing(config: TrialConfig) -> None:
    """Raise ValueError, in one sentence, for packed rows that cannot work."""
    data, begins = config.data, config.data.packing_begins
    if len(begins) != len(data.problems_per_row) - 1:
        raise ValueError(
            f"data.packing_begins has {len(begins)} entries, data.problems_per_row="
            f"{format_numbers(data.problems_per_row)} needs {len(data.problems_per_row) - 1}: the "
            "share of the steps from which each number but the first acts"
        )
    if list(begins) != sorted(set(begins)):
        raise ValueError(f"data.packing_begins={format_numbers(begins)} must rise")
    if max(data.problems_per_row) == 1:
        return
    for per_row in data.problems_per_row:
        if config.optim.batch_size % per_row:
            raise ValueError(
                f"optim.batch_size={config.optim.batch_size} counts problems and is not a multiple "
                f"of {per_row} (data.problems_per_row)"
            )
    _check_ids(config, max(data.problems_per_row))


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
    trained = task.trained_seconds(data.min_length, data.max_length)
    second = max(trained) if trained else None
    if data.packed_overlap:
        layout = task.layout(task.largest_shape(data.max_length, second))
        free = never_alone(torch.tensor(layout.relative_ids))
        if not (apart and position.ids == "coupled" and free):
            raise ValueError(
                f"data.packed_overlap={data.packed_overlap} needs random or wrapped starts "
                f"(position.start={position.start}) and a level of coupled IDs (position.ids="
                f"{position.ids}) that no token has alone; {task_name(task)} has "
                f"{', '.join(level_names(task, position))}"
            )
    if not (apart or by_row):
        return  # every problem counts from the same place
    largest = max_relative_ids(task, position.ids, data.max_length, second, position.candidate)
    unbounded = not (encoding.bounded or position.ids == "randomized" or position.start != "fixed")
    for limit, relative in zip(position.level_limits(len(largest)), largest, strict=True):
        needed = most * (relative + 1)
        if apart:
            needed = needed_ids([relative] * most, position.start == "wrapped")
        if needed > limit and not unbounded:
            raise ValueError(
                f"position.max_position={limit} is below {needed}, which {most} problems of "
                f"{task_name(task)} at length {data.max_length} in a row need "
                "(data.problems_per_row)"
            )

"""Refuse configurations that cannot work, before any compute starts, with a sentence a person can act on."""

from pcore.config import TrialConfig
from pcore.encodings import ENCODINGS
from pcore.evaluate import evaluation_lengths
from pcore.registry import resolve

CHECKPOINTS = ("last", "best", "oracle")


def validate(config: TrialConfig) -> None:
    """Raise ValueError with what is wrong, its value and the limit."""
    _check_numbers(config)
    _check_ranges(config)
    _check_positions(config)


def _check_numbers(config: TrialConfig) -> None:
    m, o, d, e = config.model, config.optim, config.data, config.eval
    at_least_one = {
        "model.num_layers": m.num_layers,
        "model.num_heads": m.num_heads,
        "model.d_model": m.d_model,
        "model.d_head": m.d_head,
        "model.d_ff": m.d_ff,
        "data.min_length": d.min_length,
        "optim.num_steps": o.num_steps,
        "optim.batch_size": o.batch_size,
        "eval.num_examples": e.num_examples,
        "eval.num_checks": e.num_checks,
        "position.max_position": config.position.max_position,
        "position.id_scale_max": config.position.id_scale_max,
    }
    for name, value in at_least_one.items():
        if value < 1:
            raise ValueError(f"{name}={value} is below 1")
    positive = {
        "optim.learning_rate": o.learning_rate,
        "optim.eps": o.eps,
        "eval.attention_factor": e.attention_factor,
    }
    for name, value in positive.items():
        if not value > 0:
            raise ValueError(f"{name}={value} must be above 0")
    fractions = {
        "optim.warmup_fraction": o.warmup_fraction,
        "optim.final_lr_fraction": o.final_lr_fraction,
        "optim.beta1": o.beta1,
        "optim.beta2": o.beta2,
    }
    for name, value in fractions.items():
        if not 0 <= value <= 1:
            raise ValueError(f"{name}={value} must be between 0 and 1")
    for name, value in {
        "optim.weight_decay": o.weight_decay,
        "optim.grad_clip": o.grad_clip,
    }.items():
        if not value >= 0:
            raise ValueError(f"{name}={value} is below 0")
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
            f"eval.near_lengths and eval.test_lengths overlap at length {min(both)}: tuning would see the test range"
        )
    for name, lengths in ranges.items():
        if len(set(lengths)) != len(lengths):
            raise ValueError(f"eval.{name}_lengths names a length twice")
    if config.eval.second_lengths and len(config.task.size_names) < 2:
        raise ValueError("eval.second_lengths is set, but the task has only one length")
    for length in (high, *(length for lengths in ranges.values() for length in lengths)):
        config.task.check_length(length)


def _check_positions(config: TrialConfig) -> None:
    position = config.position
    encoding = resolve(position.encoding, ENCODINGS, "encoding")
    if not encoding.uses_ids:
        return
    task = config.task
    if position.ids == "coupled" and not task.has_coupling:
        raise ValueError(
            "this format of the task has no coupling: use position.ids=sequential or position.encoding=none"
        )
    if position.test_start < 1:
        raise ValueError(f"position.test_start={position.test_start} is below 1")
    if position.id_scale_max > 1 and encoding.bounded:
        raise ValueError(
            f"position.id_scale_max={position.id_scale_max} needs an encoding without a largest ID"
        )
    if encoding.bounded or position.start != "fixed":
        _check_reach(config, config.data.max_length, start=1)
    if encoding.bounded:
        lengths = evaluation_lengths(config)
        for length in (max(values) for values in lengths.values() if values):
            _check_reach(config, length, start=position.test_start)
    rows, width = position.max_position + 1, config.model.d_model
    if position.encoding == "learned" and position.table_init == "orthogonal" and rows > width:
        raise ValueError(
            f"position.table_init=orthogonal needs max_position < d_model, got {position.max_position} and {width}"
        )
    if position.encoding == "rotary" and config.model.d_head % 2:
        raise ValueError(
            f"position.encoding=rotary needs an even model.d_head, got {config.model.d_head}"
        )


def _check_reach(config: TrialConfig, length: int, start: int) -> None:
    position, task = config.position, config.task
    if position.ids == "coupled":
        largest = max(task.max_relative_ids(length))
    else:
        largest = task.num_tokens(length) - 3  # BOS and EOS carry none, counting starts at 0
    if position.max_position < largest + start:
        name = type(task).__name__.lower()
        raise ValueError(
            f"position.max_position={position.max_position} is below {largest + start}, "
            f"which {name} at length {length} needs"
        )

"""What a trial is: frozen dataclasses, and the one flat dictionary that stands for them.

`flatten` gives {"model.num_layers": 1, "task.zero_pad": True, ...}: wire format, MLflow parameters,
Parquet columns and hash input. `unflatten` reads it back, fills defaults, coerces by annotation
(`lr=1` and `lr=1.0` are one trial) and refuses unknown names with the nearest right one. Defaults
are the published settings of addition, 1 layer, trained on 1-30 digits (arXiv 2405.20671, table of
hyper-parameters). `pcore.validate` checks what concerns several groups at once.
"""

import dataclasses
import hashlib
import json
import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from pcore.registry import name_of, nearest, own_code_hashes, resolve
from pcore.tasks import TASKS, Task
from pcore.tasks.addition import Addition

# Part of every trial's identity; raise it when the same configuration would give other numbers.
NUMERICS = 1

Scalar: TypeAlias = int | float | bool | str | None
Candidate: TypeAlias = Literal[
    "all", "forward-up", "backward-up", "forward-down", "backward-down", "sequential"
]


@dataclass(frozen=True, kw_only=True, slots=True)
class PositionConfig:
    """From relative IDs to what acts in the model.

    encoding: a name of `pcore.encodings.ENCODINGS` or `package.module:Class`.
    ids: coupled = the task's relative IDs; sequential = 0, 1, 2, ... over query, '=' and response;
        abacus = index of a digit inside its run of digits; randomized = a sorted random subset of
        [1, max_position], one ID per token, drawn at test time too (start and test_* do not apply);
        candidates = couplings read off the tokens without knowing the task (`pcore.candidates`).
    candidate: which of the candidates; all = each of them, as a level of its own.
    start: where counting starts in training. fixed = 1; random = uniform in
        [1, max_position - largest relative ID]; wrapped = uniform in [1, max_position], IDs beyond
        max_position go on at 1.
    max_start: largest random start; 0 = as far as max_position allows.
    test_policy: where counting starts in evaluation. fixed = at test_start; random and wrapped as
        in training, drawn from a generator that is the same for every trial.
    test_start: the ID at which counting starts in evaluation when test_policy is fixed.
    max_position: largest position ID. max_positions: one for each level instead; () = the same.
    level_tables: one table (learned) or set of weights (t5, fire) for all levels, or one for each.
    id_scale_max: in training all IDs of a batch are multiplied by one random integer in
        [1, id_scale_max].
    table_init: rows of a learned table. normal = N(0, 1); orthogonal = orthogonal rows of norm
        sqrt(d_model); rotation = powers of one rotation with evenly spaced frequencies (orthogonal
        too up to d_model rows), seen through a random orthogonal matrix. freeze_table: do not train
        it.
    rotary_base: base of the rotary frequencies.
    """

    encoding: str = "learned"
    ids: Literal["coupled", "sequential", "abacus", "randomized", "candidates"] = "coupled"
    candidate: Candidate = field(default="all", metadata={"absent": "all"})
    start: Literal["fixed", "random", "wrapped"] = "random"
    max_start: int = 0
    test_policy: Literal["fixed", "random", "wrapped"] = "fixed"
    test_start: int = 1
    max_position: int = 202
    max_positions: tuple[int, ...] = ()
    level_tables: Literal["shared", "separate"] = "shared"
    id_scale_max: int = 1
    table_init: Literal["normal", "orthogonal", "rotation"] = "normal"
    freeze_table: bool = False
    rotary_base: float = 10000.0

    def level_limits(self, num_levels: int) -> tuple[int, ...]:
        """Largest position ID on each level. Raises ValueError if max_positions names others."""
        if not self.max_positions:
            return (self.max_position,) * num_levels
        if len(self.max_positions) != num_levels:
            raise ValueError(
                f"position.max_positions has {len(self.max_positions)} entries, "
                f"position.ids={self.ids} has {num_levels} level(s) of IDs here"
            )
        return self.max_positions


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelConfig:
    """Decoder-only Transformer. norm_placement: before and after each sublayer (both), or only one
    of them.

    attention_scale: none = raw dot products (published); log-length = times log(number of visible
        keys).
    query_init: normal = query weights as random as the others (published); zero = all 0, so that
        no two positions attend to each other by chance at first (Yang et al. 2022,
        arXiv 2203.03466, appendix D.2).
    kind: trained, or constructed = weights by hand from the theorem on the task (`pcore.theory`),
        evaluated as they are; all other fields of this group do nothing then.
    num_bits: P of a constructed model, bits of a position vector; 0 = trained.
    """

    num_layers: int = 1
    num_heads: int = 4
    d_model: int = 512
    d_head: int = 128
    d_ff: int = 2048
    norm: Literal["rms", "layer"] = "rms"
    norm_placement: Literal["both", "pre", "post"] = "both"
    attention_scale: Literal["none", "log-length"] = "none"
    query_init: Literal["normal", "zero"] = field(default="normal", metadata={"absent": "normal"})
    kind: Literal["trained", "constructed"] = field(
        default="trained", metadata={"absent": "trained"}
    )
    num_bits: int = field(default=0, metadata={"absent": 0})


@dataclass(frozen=True, kw_only=True, slots=True)
class DataConfig:
    """Training examples: lengths in [min_length, max_length]; `num_examples` made once, or None for
    fresh ones for ever.
    """

    min_length: int = 1
    max_length: int = 30
    num_examples: int | None = 1_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class OptimConfig:
    """AdamW. The learning rate rises linearly over `warmup_fraction` of the steps, then falls by a
    cosine to `final_lr_fraction` of its top. `grad_clip`: largest global norm, 0 = off."""

    learning_rate: float = 1e-4
    num_steps: int = 50_000
    batch_size: int = 1000
    warmup_fraction: float = 0.01
    final_lr_fraction: float = 0.1
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.0
    grad_clip: float = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class EvalConfig:
    """What is measured. Lengths are tuples; as text "12", "1-10", "5-200:5" or a comma-separated
    mix.

    train_lengths: lengths of the train range to report; () = all of them. near_lengths: for tuning;
        never reported as the result. test_lengths: the reported range; never used for any choice.
    second_lengths: for tasks with two lengths, crossed with all of the above; () = the task's own
        (num_operands, a square).
    num_examples: test examples per length.
    checkpoints: which checkpoints are evaluated. last; best = least loss on held-out examples of
        the train range; oracle = least loss at the largest test length, which leaks the test range:
        only to compare with the paper.
    num_checks: how often during training the candidates for best and oracle are measured.
    attention_factor: multiplies attention logits in evaluation only (1 = off).
    stop_error: above 0, evaluation leaves a length as soon as it is known on which side of 95 %
        exact match lies, wrong with at most this probability (`pcore.stopping`). 0 = all examples,
        as published numbers want it.
    """

    train_lengths: tuple[int, ...] = ()
    near_lengths: tuple[int, ...] = ()
    test_lengths: tuple[int, ...] = tuple(range(35, 201, 5))
    second_lengths: tuple[int, ...] = ()
    num_examples: int = 2000
    checkpoints: tuple[str, ...] = ("last",)
    num_checks: int = 20
    attention_factor: float = 1.0
    stop_error: float = field(default=0.0, metadata={"absent": 0.0})


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialConfig:
    """One trial, completely.

    `seed` decides initial weights, `data_seed` the examples, their order and their starts.
    """

    task: Task = field(default_factory=Addition)
    position: PositionConfig = field(default_factory=PositionConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    data: DataConfig = field(default_factory=DataConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    eval: EvalConfig = field(default_factory=EvalConfig)
    seed: int = 0
    data_seed: int = 0


GROUPS: dict[str, type] = {
    "position": PositionConfig,
    "model": ModelConfig,
    "data": DataConfig,
    "optim": OptimConfig,
    "eval": EvalConfig,
}
SEEDS = ("seed", "data_seed")


def flatten(config: TrialConfig) -> dict[str, Scalar]:
    """The flat dictionary of a trial: dotted names to scalars, in declaration order.

    Tuples become text.
    """
    flat: dict[str, Scalar] = {"task.name": name_of(type(config.task), TASKS)}
    for group in ("task", *GROUPS):
        values = getattr(config, group)
        for f in dataclasses.fields(values):
            flat[f"{group}.{f.name}"] = _to_scalar(getattr(values, f.name))
    return flat | {name: getattr(config, name) for name in SEEDS}


def unflatten(flat: Mapping[str, Any]) -> TrialConfig:
    """The trial of a flat dictionary; missing names take their defaults.

    Raises ValueError for an unknown name (naming the nearest) or a value that its annotation does
    not admit.
    """
    return override(TrialConfig(), flat)


def override(config: TrialConfig, changes: Mapping[str, Any]) -> TrialConfig:
    """A copy of `config` with the dotted names in `changes` replaced."""
    task = config.task
    if "task.name" in changes and changes["task.name"] != name_of(type(task), TASKS):
        task = resolve(str(changes["task.name"]), TASKS, "task")()
    by_group: dict[str, dict[str, Any]] = {group: {} for group in ("task", *GROUPS, "")}
    known = known_fields(type(task))
    for name, value in changes.items():
        if name == "task.name":
            continue
        if name not in known:
            raise ValueError(f"unknown field {name!r}.{nearest(name, known)}")
        group, _, leaf = name.rpartition(".")
        by_group[group][leaf] = coerce(value, known[name], name)
    replaced: dict[str, Any] = {
        group: dataclasses.replace(getattr(config, group), **by_group[group]) for group in GROUPS
    }
    replaced["task"] = dataclasses.replace(task, **by_group["task"])
    return dataclasses.replace(config, **replaced, **by_group[""])


def known_fields(task: type[Task]) -> dict[str, Any]:
    """Every dotted name that a trial of this task has, with its annotation."""
    fields: dict[str, Any] = {}
    for group, cls in {"task": task, **GROUPS}.items():
        hints = get_type_hints(cls)
        fields |= {f"{group}.{f.name}": hints[f.name] for f in dataclasses.fields(cls)}
    return {"task.name": str, **fields, **dict.fromkeys(SEEDS, int)}


def trial_id(config: TrialConfig) -> str:
    """The identity of a trial: 16 hex digits of a hash of its canonical form."""
    return hashlib.sha256(canonical(config).encode()).hexdigest()[:16]


def canonical(config: TrialConfig) -> str:
    """The text that is hashed: sorted JSON of the flat dictionary and the numerics version.

    A task or encoding of the user's own code brings the hash of its source with it.
    A field added later is declared with `metadata={"absent": value}`: with that value the trial
    hashes as it did before.
    """
    flat = flatten(config)
    for group in ("task", *GROUPS):
        values = getattr(config, group)
        for f in dataclasses.fields(values):
            if "absent" in f.metadata and getattr(values, f.name) == f.metadata["absent"]:
                del flat[f"{group}.{f.name}"]
    names = {name: str(flat[name]) for name in ("task.name", "position.encoding")}
    content = flat | own_code_hashes(names) | {"numerics": NUMERICS}
    return json.dumps(content, sort_keys=True, separators=(",", ":"))


def without_seeds(config: TrialConfig) -> TrialConfig:
    """The cell a trial belongs to: its configuration with both seeds at 0."""
    return dataclasses.replace(config, seed=0, data_seed=0)


# Coercion -----------------------------------------------------------------------------------------


def coerce(value: Any, annotation: Any, name: str) -> Any:
    """`value` (often text) as the type of a field. Raises ValueError that names the field."""
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        if value is None or (isinstance(value, str) and value.lower() == "none"):
            return None
        annotation = next(a for a in get_args(annotation) if a is not type(None))
        return coerce(value, annotation, name)
    if origin is Literal:
        if value not in get_args(annotation):
            raise ValueError(f"{name}={value!r} is not one of: {', '.join(get_args(annotation))}")
        return value
    if origin is tuple:
        return _coerce_tuple(value, get_args(annotation)[0], name)
    try:
        if annotation is bool:
            return _coerce_bool(value)
        if annotation is int:
            return _coerce_int(value)
        if annotation is float and not isinstance(value, bool):
            return float(value)
        if annotation is str and isinstance(value, str):
            return value
    except (ValueError, TypeError, KeyError, OverflowError):
        pass
    raise ValueError(
        f"{name}={value!r} is not a valid {getattr(annotation, '__name__', annotation)}"
    )


def _coerce_bool(value: Any) -> bool:
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if isinstance(value, bool):
        return value
    return words[str(value).lower()]


def _coerce_int(value: Any) -> int:
    if isinstance(value, bool):
        raise ValueError
    if isinstance(value, int) or (isinstance(value, str) and value.strip("+-").isdecimal()):
        return int(value)  # not by way of a float, which rounds large seeds
    number = float(value)
    if number != int(number):
        raise ValueError
    return int(number)


def _coerce_tuple(value: Any, item: type, name: str) -> tuple[Any, ...]:
    if isinstance(value, str):
        parts: list[Any] = [part.strip() for part in value.split(",") if part.strip()]
        if item is int:
            return tuple(number for part in parts for number in _parse_range(part, name))
        return tuple(parts)
    if not isinstance(value, (list, tuple, range)):
        value = [value]
    return tuple(coerce(part, item, name) for part in value)


def _parse_range(text: str, name: str) -> range:
    ends, _, step = text.partition(":")
    low, _, high = ends.partition("-")
    try:
        return range(int(low), int(high or low) + 1, int(step or 1))
    except ValueError:
        raise ValueError(
            f"{name}: {text!r} is not a length, a range like 1-10 or a range with a step "
            "like 5-200:5"
        ) from None


def _to_scalar(value: Any) -> Scalar:
    return format_numbers(value) if isinstance(value, tuple) else value


def format_numbers(values: tuple[Any, ...]) -> str:
    """(1, 2, 3) as "1-3", (5, 10, 15) as "5-15:5", anything else comma-separated."""
    if len(values) > 2 and all(isinstance(v, int) for v in values):
        step = values[1] - values[0]
        if step > 0 and values == tuple(range(values[0], values[-1] + 1, step)):
            return f"{values[0]}-{values[-1]}" + (f":{step}" if step > 1 else "")
    return ",".join(map(str, values))

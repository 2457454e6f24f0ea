"""The definition of a trial: settings, flat dictionary, identity, random generators.

Settings are frozen dataclasses, one per group. Defaults are the published settings of addition, 1
layer, trained on 1-30 digits (arXiv 2405.20671, table of hyper-parameters). `option` declares the
bounds of a field; `pcore.validation` checks what concerns several fields at once.

`flatten` gives {"model.num_layers": 1, "task.zero_pad": True, ...}: wire format, MLflow parameters,
Parquet columns and hash input. `unflatten` reads it back, fills defaults, coerces by annotation
(`lr=1` and `lr=1.0` are one trial) and refuses unknown names with the nearest right one.

`seed` decides the initial weights; `data_seed` decides the training examples, their order and their
starts; evaluation sets depend on neither. Each (purpose, seed) pair gets its own generator, seeded
from a hash of both, so that one kind of randomness never affects another.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import math
import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from pcore import lazy_torch as torch
from pcore.registry import name_of, nearest, own_code_hashes, reading, resolve
from pcore.tasks import TASKS, Task
from pcore.tasks.addition import Addition
from pcore.tasks.candidates import Candidate

# Part of every trial's identity; raise it when the same configuration would give other numbers.
NUMERICS = 1
MIN_EXAMPLES = 20  # of a length, whatever eval.length_budget says
MAX_LENGTH = 10_000  # the layout of an example is built in plain Python
MAX_COUNT = 10**9  # of steps, examples or IDs; nobody means more
LARGEST_INT = 2**63 - 1  # a column of Parquet holds no larger one
MAX_NUMBERS = 100_000  # of a range
SEEDS = ("seed", "data_seed")
# Fields that are gone, with the value at which they changed nothing: older rows have them.
RETIRED: dict[str, Scalar] = {"eval.stop_error": 0.0}
# Fields whose value can be a class of the user's own, `package.module:Class`.
OWN_CODE = ("task.name", "position.encoding", "model.attention", "model.mixer")

Scalar: TypeAlias = int | float | bool | str | None


def option(
    default: Any,
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    below: float | None = None,
    later: bool = False,
) -> Any:
    """A field with its bounds, for a tuple those of every entry: low and high can be taken, above
    and below not. later: added after trials had ids; at its default it hashes as if it were absent.
    """
    bounds = {"low": low, "high": high, "above": above, "below": below}
    metadata: dict[str, Any] = {name: end for name, end in bounds.items() if end is not None}
    return field(default=default, metadata=metadata | ({"absent": default} if later else {}))


@dataclass(frozen=True, kw_only=True, slots=True)
class PositionConfig:
    """How relative IDs become position IDs and act in the model.

    encoding: a name of `pcore.encodings.ENCODINGS` or `package.module:Class`.
    ids: coupled = the task's relative IDs; sequential = 0, 1, 2, ... over query, '=' and response;
        abacus = index of a digit inside its run of digits; randomized = a sorted random subset of
        [1, max_position], one ID per token, drawn at test time too (start and test_* do not apply);
        candidates = couplings that follow from the tokens alone (`pcore.tasks.candidates`).
    candidate: which candidate; all = every candidate as a separate level.
    start: where counting starts in training. fixed = 1; random = uniform in
        [1, max_position - largest relative ID]; wrapped = uniform in [1, max_position], IDs beyond
        max_position go on at 1.
    max_start: largest random start; 0 = as far as max_position allows.
    test_policy: where counting starts in evaluation. fixed = at test_start; random and wrapped as
        in training, from a generator shared by all trials.
    test_start: the ID at which counting starts in evaluation when test_policy is fixed.
    max_position: largest position ID. max_positions: one per level instead; () = the same.
    level_tables: one table (learned) or set of weights (t5, fire) for all levels, or one per level.
    id_scale_max: in training all IDs of a batch are multiplied by one random integer in
        [1, id_scale_max].
    table_init: rows of a learned table. normal = N(0, 1); orthogonal = orthogonal rows of norm
        sqrt(d_model); rotation = powers of one rotation with evenly spaced frequencies (orthogonal
        too up to d_model rows), seen through a random orthogonal matrix. freeze_table: do not train
        it.
    rotary_base: base of the rotary frequencies.
    moduli: of the rings of encoding=residues, pairwise coprime; max_position is at most their
        product.
    """

    encoding: str = "learned"
    ids: Literal["coupled", "sequential", "abacus", "randomized", "candidates"] = "coupled"
    candidate: Candidate = option("all", later=True)
    start: Literal["fixed", "random", "wrapped"] = "random"
    max_start: int = option(0, low=0, high=MAX_COUNT)
    test_policy: Literal["fixed", "random", "wrapped"] = "fixed"
    test_start: int = option(1, low=1, high=MAX_COUNT)
    max_position: int = option(202, low=1, high=MAX_COUNT)
    max_positions: tuple[int, ...] = option((), low=1, high=MAX_COUNT)
    level_tables: Literal["shared", "separate"] = "shared"
    id_scale_max: int = option(1, low=1, high=MAX_COUNT)
    table_init: Literal["normal", "orthogonal", "rotation"] = "normal"
    freeze_table: bool = False
    rotary_base: float = option(10000.0, above=0)
    moduli: tuple[int, ...] = option((), later=True)

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
        keys). log_base: base of that logarithm; with that many keys logits are raw dot products.
        0 = e, which makes them several times as steep from the first step on.
    query_init: normal = query weights as random as the others (published); zero = all 0, so that
        no two positions attend to each other by chance at first (Yang et al. 2022,
        arXiv 2203.03466, appendix D.2).
    kind: trained, or constructed = hand-written weights from the task's theorem (`pcore.theory`),
        evaluated as they are; all other fields of this group then have no effect.
    attention_sink: none = weights add up to 1 over the visible keys (published); learned = each
        head has an extra learned key without a value, where attention can go when nothing matches.
        Its logit depends on the query like all others.
    num_bits: P of a constructed model, bits of a position vector; 0 = trained.
    attention: how scores become weights, a name of `pcore.mixing.ATTENTIONS` or
        `package.module:Class`; softmax = published.
    mixer: what mixes tokens, a name of `pcore.mixing.MIXERS` or `package.module:Class`:
        one for all layers, or one for each.
    num_loops: how often the same layers run, with the same weights.
    input_injection: add the embedded tokens at the start of every loop (Fan et al. 2024,
        arXiv 2409.15647; there the number of loops grows with the length, here it is fixed).
    """

    num_layers: int = option(1, low=1, high=1000)
    num_heads: int = option(4, low=1, high=10_000)
    d_model: int = option(512, low=1, high=100_000)
    d_head: int = option(128, low=1, high=100_000)
    d_ff: int = option(2048, low=1, high=1_000_000)
    norm: Literal["rms", "layer"] = "rms"
    norm_placement: Literal["both", "pre", "post"] = "both"
    attention_scale: Literal["none", "log-length"] = "none"
    query_init: Literal["normal", "zero"] = option("normal", later=True)
    kind: Literal["trained", "constructed"] = option("trained", later=True)
    num_bits: int = option(0, low=0, later=True)
    attention_sink: Literal["none", "learned"] = option("none", later=True)
    log_base: int = option(0, low=0, high=1_000_000, later=True)
    attention: str = option("softmax", later=True)
    mixer: tuple[str, ...] = option(("attention",), later=True)
    num_loops: int = option(1, low=1, high=1000, later=True)
    input_injection: bool = option(False, later=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class DataConfig:
    """Training examples: lengths in [min_length, max_length]; `num_examples` made once, or None for
    endless fresh ones. The rest is about rows of several problems (`pcore.batch`).

    problems_per_row: K, how many problems follow one another in a row of tokens; several numbers
        are a schedule. optim.batch_size counts problems whatever K is.
    packing_begins: the share of the steps from which each K but the first acts.
    single_problems: at least this share of a batch stays alone in its row at every K, so that short
        rows are still trained.
    packed_order: how IDs count through a row. problem = each problem by itself, from a start of its
        own; random and wrapped starts are drawn so that the ranges of IDs of a row do not touch.
        row = on from problem to problem, a start per row: a row is then one long sequence
        (sequential and randomized IDs only).
    """

    min_length: int = option(1, low=1, high=MAX_LENGTH)
    max_length: int = option(30, low=1, high=MAX_LENGTH)
    num_examples: int | None = option(1_000_000, low=1, high=MAX_COUNT)
    problems_per_row: tuple[int, ...] = option((1,), low=1, later=True)
    packing_begins: tuple[float, ...] = option((), above=0, below=1, later=True)
    single_problems: float = option(0.0, low=0, below=1, later=True)
    packed_order: Literal["problem", "row"] = option("problem", later=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class OptimConfig:
    """AdamW. The learning rate rises linearly over `warmup_fraction` of the steps, then falls by a
    cosine to `final_lr_fraction` of its top. `weight_decay` falls by a cosine over all steps to
    `final_decay_fraction` of itself; 1 = constant. `grad_clip`: largest global norm, 0 = off."""

    learning_rate: float = option(1e-4, above=0, high=1000)
    num_steps: int = option(50_000, low=0, high=MAX_COUNT)
    batch_size: int = option(1000, low=1, high=MAX_COUNT)
    warmup_fraction: float = option(0.01, low=0, high=1)
    final_lr_fraction: float = option(0.1, low=0, high=1)
    beta1: float = option(0.9, low=0, below=1)
    beta2: float = option(0.999, low=0, below=1)
    eps: float = option(1e-8, above=0)
    weight_decay: float = option(0.0, low=0)
    final_decay_fraction: float = option(1.0, low=0, high=1, later=True)
    grad_clip: float = option(1.0, low=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class EvalConfig:
    """What is measured. Lengths are tuples; as text "12", "1-10", "5-200:5" or a comma-separated
    mix.

    train_lengths: lengths of the train range to report; () = all of them. near_lengths: for tuning;
        never reported as the result. test_lengths: the reported range; never used for any choice.
    second_lengths: for tasks with two lengths, crossed with all of the above; () = the task's own
        (num_operands, a square).
    num_examples: test examples per length. length_budget: above 0, a test set of length L holds no
        more than length_budget / L, but 20, so that long lengths take about as long as short ones.
    checkpoints: which checkpoints are evaluated. last; best = least loss on held-out examples of
        the train range; oracle = least loss at the largest test length, which leaks the test range:
        only to compare with the paper.
    num_checks: how often during training the candidates for best and oracle are measured.
    attention_factor: multiplies attention logits in evaluation only (1 = off).
    """

    train_lengths: tuple[int, ...] = option((), low=1, high=MAX_LENGTH)
    near_lengths: tuple[int, ...] = option((), low=1, high=MAX_LENGTH)
    test_lengths: tuple[int, ...] = option(tuple(range(35, 201, 5)), low=1, high=MAX_LENGTH)
    second_lengths: tuple[int, ...] = option((), low=1, high=MAX_LENGTH)
    num_examples: int = option(2000, low=1, high=MAX_COUNT)
    checkpoints: tuple[str, ...] = ("last",)
    num_checks: int = option(20, low=1, high=MAX_COUNT)
    attention_factor: float = option(1.0, above=0)
    length_budget: int = option(0, low=0, later=True)

    def examples_at(self, length: int) -> int:
        """How many examples a test set of this length holds."""
        if not self.length_budget:
            return self.num_examples
        return min(self.num_examples, max(MIN_EXAMPLES, self.length_budget // length))


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


def flatten(config: TrialConfig) -> dict[str, Scalar]:
    """The flat dictionary of a trial: dotted names to scalars, in declaration order.

    Tuples become text.
    """
    check_options(type(config.task))
    flat: dict[str, Scalar] = {"task.name": name_of(type(config.task), TASKS)}
    for group in ("task", *GROUPS):
        values = getattr(config, group)
        for name, leaf in _names(group, type(values)):
            flat[name] = _to_scalar(getattr(values, leaf))
    return flat | {name: getattr(config, name) for name in SEEDS}


def unflatten(
    flat: Mapping[str, Any], *, trust_code: bool = False, file: str = "a file"
) -> TrialConfig:
    """The trial of a flat dictionary; missing names take their defaults.

    trust_code: import own code that it names. file: what it was read from, for messages. Raises
    ValueError for code that is neither trusted nor imported already, for an unknown name (naming
    the nearest) and for a value that its annotation does not admit.
    """
    if trust_code:
        return override(TrialConfig(), flat)
    with reading(file):
        config = override(TrialConfig(), flat)
        for field, names in named_code(config).items():
            for name in names:
                resolve(name, {}, field)
    return config


def named_code(config: TrialConfig) -> dict[str, list[str]]:
    """The names of own code in a trial, by field; fields without any are left out."""
    values = {
        "task.name": (name_of(type(config.task), TASKS),),
        "position.encoding": (config.position.encoding,),
        "model.attention": (config.model.attention,),
        "model.mixer": config.model.mixer,
    }
    named = {f: [n for n in dict.fromkeys(names) if ":" in n] for f, names in values.items()}
    return {field: names for field, names in named.items() if names}


def override(config: TrialConfig, changes: Mapping[str, Any]) -> TrialConfig:
    """A copy of `config` with the dotted names in `changes` replaced."""
    task = config.task
    if "task.name" in changes and changes["task.name"] != name_of(type(task), TASKS):
        task = resolve(str(changes["task.name"]), TASKS, "task")()
    by_group: dict[str, dict[str, Any]] = {group: {} for group in ("task", *GROUPS, "")}
    known = known_fields(type(task))
    for name, value in changes.items():
        if name == "task.name" or (name in RETIRED and value == RETIRED[name]):
            continue
        if name in RETIRED:
            raise ValueError(f"{name}={value!r}: this field is gone")
        if name not in known:
            raise ValueError(f"unknown field {name!r}.{nearest(name, known)}")
        group, _, leaf = name.rpartition(".")
        by_group[group][leaf] = coerce(value, known[name], name)
    replaced: dict[str, Any] = {
        group: dataclasses.replace(getattr(config, group), **by_group[group])
        for group in GROUPS
        if by_group[group]
    }
    replaced["task"] = dataclasses.replace(task, **by_group["task"])
    return dataclasses.replace(config, **replaced, **by_group[""])


@functools.cache
def _names(group: str, cls: type) -> tuple[tuple[str, str], ...]:
    return tuple((f"{group}.{f.name}", f.name) for f in dataclasses.fields(cls))


@functools.cache
def _later_fields(group: str, cls: type) -> tuple[tuple[str, str, Any], ...]:
    fields = [f for f in dataclasses.fields(cls) if "absent" in f.metadata]
    return tuple((f"{group}.{f.name}", f.name, f.metadata["absent"]) for f in fields)


@functools.cache
def _annotations(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


@functools.cache
def known_fields(task: type[Task]) -> Mapping[str, Any]:
    """Every dotted name that a trial of this task has, with its annotation."""
    fields: dict[str, Any] = {}
    for group, cls in {"task": task, **GROUPS}.items():
        hints = _annotations(cls)
        fields |= {f"{group}.{f.name}": hints[f.name] for f in dataclasses.fields(cls)}
    return {"task.name": str, **fields, **dict.fromkeys(SEEDS, int)}


@functools.cache
def check_options(task: type[Task]) -> None:
    """Raise ValueError if a task has an option with the name of a shipped task's and another type:
    rows have one column for both.
    """
    for name, annotation in known_fields(task).items():
        for shipped, cls in TASKS.items():
            wanted = known_fields(cls).get(name, annotation)
            if stored_type(wanted) is not stored_type(annotation):
                raise ValueError(
                    f"{name}: {name_of(task, TASKS)} has an option of type "
                    f"{stored_type(annotation).__name__}, that of {shipped} is "
                    f"{stored_type(wanted).__name__}, and rows have one column for both: "
                    "choose another name"
                )


def stored_type(annotation: Any) -> type:
    """The type of a field's values in rows: bool, int, float or str; None is possible in each."""
    if get_origin(annotation) in (Union, types.UnionType):
        annotation = next(a for a in get_args(annotation) if a is not type(None))
    return annotation if annotation in (bool, int, float) else str


def check_bounds(config: TrialConfig) -> None:
    """Raise ValueError for the first value beyond the bounds of its field, or a size of a task that
    cannot be meant: before anything of that size is built.
    """
    for group in ("task", *GROUPS):
        values = getattr(config, group)
        for f in dataclasses.fields(values):
            value = getattr(values, f.name)
            bounds = {"high": MAX_LENGTH} if group == "task" else f.metadata
            for number in value if isinstance(value, tuple) else (value,):
                if isinstance(number, int) or (isinstance(number, float) and group != "task"):
                    _check_bound(f"{group}.{f.name}", number, value, bounds)


def _check_bound(name: str, number: float, value: Any, bounds: Mapping[str, Any]) -> None:
    said = f"{name}={number}"
    if isinstance(value, tuple) and len(value) > 1:
        said = f"{name}={format_numbers(value)} holds {number}, which"
    low, high = bounds.get("low", number), bounds.get("high", number)
    if number < low or number > high:
        raise ValueError(f"{said} is {f'below {low}' if number < low else f'above {high}'}")
    if "above" in bounds and number <= bounds["above"]:
        raise ValueError(f"{said} must be above {bounds['above']}")
    if "below" in bounds and number >= bounds["below"]:
        raise ValueError(f"{said} must be below {bounds['below']}")


def trial_id(config: TrialConfig) -> str:
    """The identity of a trial: 16 hex digits of a hash of its canonical form."""
    return hashlib.sha256(canonical(config).encode()).hexdigest()[:16]


def canonical(config: TrialConfig) -> str:
    """The text that is hashed: sorted JSON of the flat dictionary and the numerics version.

    Own code (a task, an encoding, an attention, mixers) brings the hash of its source with it.
    A field added later (`option(..., later=True)`) does not count at its default, so that the trial
    hashes as it did before.
    """
    flat = flatten(config)
    for group in ("task", *GROUPS):
        values = getattr(config, group)
        for name, leaf, absent in _later_fields(group, type(values)):
            if getattr(values, leaf) == absent:
                del flat[name]
    content = flat | own_code_hashes(named_code(config)) | {"numerics": NUMERICS}
    return json.dumps(content, sort_keys=True, separators=(",", ":"))


def without_seeds(config: TrialConfig) -> TrialConfig:
    """The cell a trial belongs to: its configuration with both seeds at 0."""
    return dataclasses.replace(config, seed=0, data_seed=0)


# Randomness ---------------------------------------------------------------------------------------


def derive_seed(purpose: str, *keys: object) -> int:
    """A 63-bit seed from a purpose and any printable keys.

    Equal arguments give equal seeds on every machine.
    """
    text = "\x1f".join([purpose, *map(str, keys)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def make_generator(
    purpose: str, *keys: object, device: str | torch.device = "cpu"
) -> torch.Generator:
    """A torch generator on `device` whose stream depends on the purpose and the keys alone."""
    return torch.Generator(device=device).manual_seed(derive_seed(purpose, *keys))


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
            return _coerce_float(value)
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


def _coerce_float(value: Any) -> float:
    if not math.isfinite(number := float(value)):
        raise ValueError
    return number


def _coerce_int(value: Any) -> int:
    if isinstance(value, bool):
        raise ValueError
    if isinstance(value, int) or (isinstance(value, str) and value.strip("+-").isdecimal()):
        number = int(value)  # not by way of a float, which rounds large seeds
    elif (number := int(float(value))) != float(value):
        raise ValueError
    if abs(number) > LARGEST_INT:
        raise ValueError
    return number


def _coerce_tuple(value: Any, item: type, name: str) -> tuple[Any, ...]:
    if isinstance(value, str):
        parts: list[Any] = [part.strip() for part in value.split(",") if part.strip()]
        if item is int:
            return tuple(number for part in parts for number in _parse_range(part, name))
        return tuple(coerce(part, item, name) for part in parts)
    if not isinstance(value, (list, tuple, range)):
        value = [value]
    return tuple(coerce(part, item, name) for part in value)


def _parse_range(text: str, name: str) -> range:
    ends, _, step = text.partition(":")
    low, _, high = ends.partition("-")
    try:
        first, last, by = int(low), int(high or low), int(step or 1)
    except ValueError:
        first, last, by = 1, 0, 1
    if last < first or by < 1:
        raise ValueError(
            f"{name}: {text!r} is not a length, a range like 1-10 or a range with a step "
            "like 5-200:5"
        )
    if (count := (last - first) // by + 1) > MAX_NUMBERS:
        raise ValueError(f"{name}: {text!r} names {count:,} numbers, above {MAX_NUMBERS:,}")
    return range(first, last + 1, by)


def _to_scalar(value: Any) -> Scalar:
    return format_numbers(value) if isinstance(value, tuple) else value


def format_numbers(values: tuple[Any, ...]) -> str:
    """(1, 2, 3) as "1-3", (5, 10, 15) as "5-15:5", anything else comma-separated."""
    if len(values) > 2 and all(isinstance(v, int) for v in values):
        step = values[1] - values[0]
        if step > 0 and values == tuple(range(values[0], values[-1] + 1, step)):
            return f"{values[0]}-{values[-1]}" + (f":{step}" if step > 1 else "")
    return ",".join(map(str, values))

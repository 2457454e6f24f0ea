"""A trial as a flat dictionary, its identity, and its random generators.

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
import itertools
import json
import math
import sys
import types
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from pcore import lazy_torch as torch
from pcore.registry import name_of, nearest, own_code_hashes, resolve
from pcore.settings import (
    MAX_LENGTH,
    DataConfig,
    EvalConfig,
    ModelConfig,
    OptimConfig,
    PositionConfig,
    TrialConfig,
)
from pcore.tasks import TASKS, Task

# Part of every trial's identity; raise it when the same configuration would give other numbers.
NUMERICS = 1
LARGEST_INT = 2**63 - 1  # a column of Parquet holds no larger one
MAX_NUMBERS = 10_000  # of a field
SEEDS = ("seed", "data_seed")
# Fields that are gone, with the value at which they changed nothing: older rows have them.
RETIRED: dict[str, Scalar] = {"eval.stop_error": 0.0, "data.single_problems": 0.0}
# Fields whose value can be a class of the user's own, `package.module:Class`, and of what kind.
OWN_CODE = {
    "task.name": "task",
    "position.encoding": "encoding",
    "model.attention": "attention",
    "model.mixer": "mixer",
}

Scalar: TypeAlias = int | float | bool | str | None

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
    if not trust_code:
        _require_imported(flat, file)
    return override(TrialConfig(), flat)


def _require_imported(flat: Mapping[str, Any], file: str) -> None:
    """What a file names was written by who knows whom; what this process has imported already, the
    user's own script or command line named.
    """
    for field, names in own_code(flat).items():
        for name in names:
            if name.partition(":")[0] not in sys.modules:
                raise ValueError(
                    f"{file} names own code, {field.removesuffix('.name')} {name!r}, which would "
                    "be imported and run: give --trust-code if you trust it"
                )


def own_code(flat: Mapping[str, Any]) -> dict[str, list[str]]:
    """The names of own code in a flat dictionary, by field: to be shown, or read without importing
    it. Fields without any are left out.
    """
    found: dict[str, list[str]] = {}
    for field in OWN_CODE:
        text = str(flat.get(field, ""))
        names = map(str.strip, text.split(",")) if field == "model.mixer" else [text]
        if own := [name for name in dict.fromkeys(names) if ":" in name]:
            found[field] = own
    return found


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
def known_fields(task: type[Task]) -> Mapping[str, Any]:
    """Every dotted name that a trial of this task has, with its annotation."""
    fields: dict[str, Any] = {}
    for group, cls in {"task": task, **GROUPS}.items():
        hints = get_type_hints(cls)
        fields |= {f"{group}.{f.name}": hints[f.name] for f in dataclasses.fields(cls)}
    return {"task.name": str, **fields, **dict.fromkeys(SEEDS, int)}


@functools.cache
def check_options(task: type[Task]) -> None:
    """Raise ValueError if a task has an option with the name of a shipped task's and another type,
    as rows have one column for both, or one that its class, no dataclass, does not take.
    """
    hints = get_type_hints(task)
    for base in task.__mro__:
        for name in vars(base).get("__annotations__", ()):
            is_option = ClassVar not in (hints[name], get_origin(hints[name]))
            if is_option and "__dataclass_fields__" not in vars(base):
                raise ValueError(
                    f"{name_of(base, TASKS)}: {name!r} is no option without "
                    "@dataclass(frozen=True, kw_only=True) above the class"
                )
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
            numbers = value if isinstance(value, tuple) else (value,)
            kinds = (int,) if group == "task" else (int, float)
            for number in numbers:
                if isinstance(number, kinds) and (wrong := _beyond(number, bounds)):
                    which = f" holds {number}, which" if len(numbers) > 1 else ""
                    raise ValueError(f"{group}.{f.name}={_to_scalar(value)}{which} {wrong}")


def _beyond(number: float, bounds: Mapping[str, Any]) -> str:
    """What is wrong with a number; empty if it is within the bounds of `option`."""
    low, high = bounds.get("low", number), bounds.get("high", number)
    if number < low or number > high:
        return f"is below {low}" if number < low else f"is above {high}"
    if "above" in bounds and number <= bounds["above"]:
        return f"must be above {bounds['above']}"
    if "below" in bounds and number >= bounds["below"]:
        return f"must be below {bounds['below']}"
    return ""


def trial_id(config: TrialConfig) -> str:
    """The identity of a trial: 16 hex digits of a hash of its canonical form."""
    return _hash(canonical(config))


def trial_ids(config: TrialConfig, seeds: Iterable[tuple[int, int]]) -> list[str]:
    """Of a configuration at each pair (seed, data_seed): its canonical form is made once."""
    before, _, rest = canonical(without_seeds(config)).partition('"data_seed":0')
    between, _, after = rest.partition('"seed":0')
    return [
        _hash(f'{before}"data_seed":{data_seed}{between}"seed":{seed}{after}')
        for seed, data_seed in seeds
    ]


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


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
    content = flat | own_code_hashes(own_code(flat)) | {"numerics": NUMERICS}
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
        choices = {str(choice): choice for choice in get_args(annotation)}
        if str(value) not in choices:
            raise ValueError(f"{name}={value!r} is not one of: {', '.join(choices)}")
        return choices[str(value)]
    if origin is tuple:
        return _coerce_tuple(value, get_args(annotation)[0], name)
    try:
        return PLAIN[annotation](value)
    except (ValueError, TypeError, KeyError, OverflowError):
        pass
    raise ValueError(
        f"{name}={value!r} is not a valid {getattr(annotation, '__name__', annotation)}"
    )


def _coerce_bool(value: Any) -> bool:
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    return value if isinstance(value, bool) else words[str(value).lower()]


def _coerce_float(value: Any) -> float:
    if isinstance(value, bool) or not math.isfinite(number := float(value)):
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


def _coerce_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    value.encode()  # half a character is in no row
    return value


PLAIN = {bool: _coerce_bool, float: _coerce_float, int: _coerce_int, str: _coerce_text}


def _coerce_tuple(value: Any, item: type, name: str) -> tuple[Any, ...]:
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
        if item is int:
            ranges = [_parse_range(part, name) for part in value]
            _check_count(sum((r[-1] - r[0]) // r.step + 1 for r in ranges), name)
            return tuple(itertools.chain(*ranges))
    elif not isinstance(value, (list, tuple, range)):
        value = [value]
    _check_count(len(value), name)
    return tuple(coerce(part, item, name) for part in value)


def _check_count(count: int, name: str) -> None:
    if count > MAX_NUMBERS:
        raise ValueError(f"{name} names {count:,} values, above {MAX_NUMBERS:,}")


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

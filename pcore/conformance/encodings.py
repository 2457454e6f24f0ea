"""Rules for encodings, checked inside a tiny model after a few training steps on addition."""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from pcore.config import make_generator, override
from pcore.conformance.bench import TOLERANCE, Bench, check_rules, difference, gradient
from pcore.conformance.report import Broken, Check, run_check, tiny_config
from pcore.encodings import Encoding, find_encoding
from pcore.model import make_model
from pcore.validation import validate

LARGEST_ID = 2100  # max_position of the checked model
SHIFTS = (1, 7, 2000)  # added to all IDs


def check_encoding(name: str) -> list[Check]:
    """Every rule for encodings. If the class does not train at all, only that is reported."""

    first = run_check("shapes", partial(_shapes, name))
    if not first.passed:
        return [first]  # all other rules would fail for the same reason
    rules = {
        "uses_ids stated = measured": _uses_ids,
        "offset stated = measured": _offset,
        "ID bound": _bound,
        "levels": _levels,
        "gradient reaches parameters": _gradient,
    }
    return [first, *check_rules(lambda: Bench(_settings(name)), rules)]


def _settings(name: str) -> dict[str, Any]:
    settings = {"position.encoding": name, "position.max_position": LARGEST_ID}
    return settings | find_encoding(name).needs


@torch.no_grad()
def _shapes(name: str) -> str:
    """What the methods of the class return, as `Encoding` documents it."""
    config = tiny_config(_settings(name))
    encoding, model = make_model(config).encoding, config.model
    sizes = {"B": 3, "T": 7, "Q": 5, "H": model.num_heads, "K": model.d_head, "D": model.d_model}
    ids = torch.arange(1, 22).reshape(3, 7, 1)
    x = torch.ones(3, model.num_heads, 7, model.d_head)
    results: dict[str, tuple[object, str]] = {
        "embed": (encoding.embed(ids), "BTD"),
        "rotate": (encoding.rotate(x, ids, 0), "BHTK"),
        "bias": (encoding.bias(ids[:, :5], ids, 0), "BHQT"),
    }
    for method, (result, letters) in results.items():
        if result is None:
            continue
        expected = tuple(sizes[letter] for letter in letters)
        if not isinstance(result, Tensor) or result.shape != expected:
            got = tuple(result.shape) if isinstance(result, Tensor) else type(result).__name__
            raise Broken(f"{method} returned {got}, expected {' '.join(letters)} = {expected}")
        if result.dtype != torch.float32:
            raise Broken(f"{method} returned {result.dtype}, expected torch.float32")
    cls = type(encoding)
    defined = [name for name in results if getattr(cls, name) is not getattr(Encoding, name)]
    return ", ".join(defined) or "no method defined"


def _uses_ids(bench: Bench) -> str:
    plain = bench.logits(bench.tokens, bench.any_ids)
    gap = difference(plain, bench.logits(bench.tokens, bench.other_ids))
    if (gap > TOLERANCE) != bench.model.encoding.uses_ids:
        raise Broken(
            f"the class states uses_ids = {bench.model.encoding.uses_ids}, but other IDs change "
            f"logits by {gap:.1e}; if that is meant, write uses_ids = {gap > TOLERANCE}"
        )
    return f"{bench.model.encoding.uses_ids}: other IDs change logits by {gap:.0e}"


def _offset(bench: Bench) -> str:
    """Add a constant to all IDs."""
    plain = bench.logits(bench.tokens, bench.any_ids)
    gaps = [difference(plain, bench.logits(bench.tokens, bench.any_ids + s)) for s in SHIFTS]
    measured = "dependent" if max(gaps) > TOLERANCE else "invariant"
    detail = f"shifts of {', '.join(map(str, SHIFTS))} change logits by {max(gaps):.1e} at most"
    if measured != bench.model.encoding.offset:
        stated = bench.model.encoding.offset
        raise Broken(
            f"the class states offset = {stated!r}, but it is {measured!r}: {detail}; if that is "
            f"meant, write offset = {measured!r}"
        )
    return f"{measured}: {detail}"


def _bound(bench: Bench) -> str:
    """Every ID that `validate` lets through has a finite effect; too small a bound is refused."""
    ids = bench.any_ids.clone()
    ids[:, -1] = LARGEST_ID
    try:
        finite = bench.logits(bench.tokens, ids).isfinite().all()
    except IndexError as error:
        rows = "IDs run from 0 to position.max_position, so a table has max_position + 1 rows"
        raise Broken(f"{error}: {rows}") from error
    if not finite:
        raise Broken(f"logits are not finite at max_position={LARGEST_ID}")
    if not bench.model.encoding.bounded:
        far = 20 * LARGEST_ID
        if not bench.logits(bench.tokens, bench.any_ids + far).isfinite().all():
            raise Broken(f"stated bounded=False, but logits are not finite at IDs around {far}")
        return f"stated unbounded: IDs around {far} work"
    try:
        validate(override(bench.config, {"position.max_position": 5}))
    except ValueError as error:
        return f"refused: {error}"
    raise Broken("stated bounded=True, but max_position=5 is accepted where IDs go up to 6")


def _levels(bench: Bench) -> str:
    """Two levels of IDs work, or are refused with a ValueError."""
    config = override(bench.config, {"task.scratchpad": True})
    try:
        model = make_model(config)
    except ValueError as error:
        return f"two levels are refused: {error}"
    batch = config.task.sample_length(2, 2, make_generator("conformance"))
    if not model(batch.tokens, batch.relative_ids + 1).isfinite().all():
        raise Broken("logits are not finite with two levels of IDs")
    return "two levels work"


def _gradient(bench: Bench) -> str:
    return gradient(bench, [bench.model.encoding])

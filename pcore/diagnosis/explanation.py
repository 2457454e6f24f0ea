"""Why a model fails, as `pcore explain` prints it: causes in words, counts, and probes."""

import math
from collections.abc import Iterator, Sequence

from pcore.config import TrialConfig, format_numbers
from pcore.diagnosis.attention import AttentionMap, Head, average_attention
from pcore.diagnosis.breakdowns import Breakdown
from pcore.diagnosis.causes import VISITS, name_causes, percent
from pcore.diagnosis.failures import Diagnosis
from pcore.diagnosis.probes import OFTEN, count_visits, grade_visits, table_similarity
from pcore.encodings import Mixture
from pcore.encodings.position_ids import level_names
from pcore.model.transformer import Transformer

NO_PATTERN = "this model has no coupled IDs, so the construction predicts nothing about its heads"
MOST_KEYS = 6  # rows of a breakdown that are printed
LEAST_SHOWN = 0.02  # explained by a breakdown that is printed
PROBED = 300  # examples by which attention is followed over lengths


def format_diagnosis(diagnosis: Diagnosis) -> str:
    """The kinds of failure, the causes in words, and the counts behind them."""
    d = diagnosis
    right = d.num_examples - d.num_failed
    lines = [
        f"exact match {percent(right / d.num_examples)} ({right} of {d.num_examples}); "
        f"{d.num_missed_stop} do not stop, {d.num_early_stop} stop too early, "
        f"{d.num_wrong_symbol} write a wrong symbol"
    ]
    if d.num_failed_elsewhere is not None:
        share = percent(1 - d.num_failed_elsewhere / d.num_examples)
        lines.append(f"exact match {share} on the same examples at starts drawn as in training")
    causes = name_causes(diagnosis)
    silent = "nothing failed as tested, and no cause explains what fails otherwise"
    lines += ["", "why:" if causes else silent]
    lines += [f"- {cause.sentence}" for cause in causes]
    shown = [b for b in d.breakdowns if b.explained >= LEAST_SHOWN]
    for breakdown in sorted(shown, key=lambda breakdown: -breakdown.explained):
        lines += ["", *_format_breakdown(breakdown)]
    if rest := [b.name for b in d.breakdowns if b.num_wrong and b not in shown]:
        lines += ["", f"explain less than {percent(LEAST_SHOWN)} each: {', '.join(rest)}"]
    return "\n".join(lines)


def describe_attention(model: Transformer, config: TrialConfig, length: int) -> Iterator[str]:
    """How attention changes from trained lengths to this one, and where it is at the stop."""
    trained = config.data.max_length
    lengths = sorted({trained, (trained + length) // 2, length})
    maps = [average_attention(model, config, n, PROBED) for n in lengths]
    yield f"attention at lengths {', '.join(map(str, lengths))}"
    rows = [
        ["head", "keys", "largest", *(["next, no BOS", "same, no BOS"] if maps[0].even else [])]
    ]
    for heads in zip(*(found.heads for found in maps), strict=True):
        row = [name_head(heads[0], maps[0]), _series([math.exp(h.entropy) for h in heads], 1)]
        row.append(_series([head.largest for head in heads], 2))
        for pattern in range(2 if maps[0].even else 0):
            row.append(_series([head.likenesses[pattern].mass_beyond_bos for head in heads], 2))
        rows.append(row)
    yield from align_columns(rows)
    yield f"where it looks when it must stop, length {lengths[-1]}:"
    for head in maps[-1].heads:
        weights, places = maps[-1].weights[head.layer, head.head, -1].topk(4)
        keys = zip(weights.tolist(), places.tolist(), strict=True)
        text = ", ".join(f"{maps[-1].labels[place]} {weight:.2f}" for weight, place in keys)
        yield f"  {name_head(head, maps[-1])}: {text}"
    yield "" if maps[0].even else f"{NO_PATTERN}\n"


def describe_ids(model: Transformer, config: TrialConfig, length: int) -> Iterator[str]:
    """Learned weights of levels, the geometry of the position table, and IDs that training seldom
    used.
    """
    if isinstance(model.encoding, Mixture):
        weights = model.encoding.weights().detach().tolist()
        named = zip(level_names(config.task, config.position), weights, strict=True)
        text = ", ".join(f"{name} {weight:.2f}" for name, weight in named)
        yield f"weights of the levels of IDs: {text}"
    for cosines in table_similarity(model):
        shown = [d for d in (1, 2, 3, 4, 8, 16, 32, 64) if d < len(cosines)]
        text = ", ".join(f"{d}: {cosines[d]:+.2f}" for d in shown)
        yield f"position table, mean cosine of two rows by distance of their IDs: {text}"
    visits = count_visits(config)
    if visits is None:
        yield "position IDs do nothing in this model"
        return
    for shares, grades in zip(visits, grade_visits(visits), strict=True):
        rows = [row for row in range(1, len(shares)) if grades[row] != OFTEN]
        own = shares[1:]
        text = f"least {percent(float(own.min()))}, median {percent(float(own.median()))}"
        yield f"share of training examples that use a position ID: {text}"
        for grade in sorted({int(grades[row]) for row in rows}):
            named = format_numbers(tuple(row for row in rows if grades[row] == grade))
            yield f"  {VISITS[grade]}: {named}"


def align_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines, columns to the right of each other, numbers under the end of their head."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{c:>{w}}" for c, w in zip(row, widths, strict=True)) for row in rows]


def name_head(head: Head, found: AttentionMap) -> str:
    """ "2" in a model of one layer, "1.2" for the second head of the first of several."""
    layer = f"{head.layer + 1}." if len(found.weights) > 1 else ""
    return f"{layer}{head.head + 1}"


def _format_breakdown(breakdown: Breakdown) -> Iterator[str]:
    """The worst keys with their counts, and what all others together have."""
    title = f"{breakdown.name} ({breakdown.asked}, explains {percent(breakdown.explained)})"
    yield f"by {title}: wrong {breakdown.unit}"
    worst = sorted(breakdown.tallies, key=lambda tally: -tally.share)[:MOST_KEYS]
    worst = [tally for tally in worst if tally.num_wrong]
    named = [VISITS[t.key] if "training" in breakdown.name else str(t.key) for t in worst]
    rows = [
        [n, percent(t.share), str(t.num_wrong), "of", str(t.num_cases)]
        for n, t in zip(named, worst, strict=True)
    ]
    cases = breakdown.num_cases - sum(tally.num_cases for tally in worst)
    if cases:
        wrong = breakdown.num_wrong - sum(tally.num_wrong for tally in worst)
        rows.append(["all others", percent(wrong / cases), str(wrong), "of", str(cases)])
    yield from (f"  {line}" for line in align_columns(rows))


def _series(values: Sequence[float], digits: int) -> str:
    return " ".join(f"{value:.{digits}f}" for value in values)

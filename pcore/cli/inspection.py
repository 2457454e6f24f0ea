"""The output of `pcore attention` and `pcore explain`."""

import math
from collections.abc import Iterator, Sequence

from pcore.cli.screen import align
from pcore.config import TrialConfig
from pcore.diagnosis.attention import AttentionMap, Head
from pcore.diagnosis.causes import name_causes, percent
from pcore.diagnosis.failures import Diagnosis
from pcore.diagnosis.patterns import Likeness
from pcore.encodings import Mixture
from pcore.encodings.position_ids import level_names
from pcore.model.transformer import Transformer

NO_PATTERN = "this model has no coupled IDs, so the construction predicts nothing about its heads"
NUMBERS = ("no BOS", "overlap", "at stop")  # of a pattern, after its mass


def format_attention(averaged: AttentionMap, title: str) -> str:
    """A row per head and level of IDs, and the baseline of even attention."""
    m = averaged
    left_out = f" ({m.num_left_out} of another layout left out)" if m.num_left_out else ""
    lines = [
        f"{title}: attention at length {m.length}, {m.num_examples} examples{left_out}",
        f"averaged over the {len(m.labels) - m.first_query} queries from '=' on; logits "
        f"times {m.factor:g}, as in evaluation",
        "",
    ]
    rows = [["head", "BOS", "keys", "largest"]]
    if m.even:
        rows[0] += ["level", *("next", *NUMBERS), *("same", *NUMBERS)]
    for head in m.heads:
        shares = [f"{head.bos:.3f}", f"{math.exp(head.entropy):.1f}", f"{head.largest:.3f}"]
        cells = [_name_head(head, m), *shares]
        rows += [cells + likeness for likeness in _by_level(head.likenesses) or [[]]]
    rows += [["even", "", "", "", *likeness] for likeness in _by_level(m.even)]
    lines += [*align(rows), ""]
    if not m.even:
        return "\n".join([*lines, NO_PATTERN])
    most = {like.pattern: f"{like.most_beyond_bos:.3f}" for like in m.even}
    lines += [
        "next: BOS and the tokens with the ID of the symbol to be written; same: BOS and those",
        "with the ID of the current one (arXiv 2405.20671, Theorem 5.1). no BOS: the mass without",
        f"BOS, at most {most['next']} and {most['same']}. overlap: 1 = even weights on exactly",
        "these keys. at stop: mass of the last query alone. keys: e to the entropy. even: all",
        "visible tokens alike.",
    ]
    return "\n".join(lines)


def format_diagnosis(diagnosis: Diagnosis) -> Iterator[str]:
    """Lines: the kinds of failure, then their causes in words."""
    d = diagnosis
    num_right = d.num_examples - d.num_failed
    yield (
        f"exact match {percent(num_right / d.num_examples)} ({num_right} of {d.num_examples}); "
        f"{d.num_missed_stop} do not stop, {d.num_early_stop} stop too early, "
        f"{d.num_wrong_symbol} write a wrong symbol"
    )
    if d.num_failed_elsewhere is not None:
        share = percent(1 - d.num_failed_elsewhere / d.num_examples)
        yield f"exact match {share} on the same examples at starts drawn as in training"
    causes = name_causes(diagnosis)
    yield ""
    yield "why:" if causes else "nothing failed as tested, and nothing explains other failures"
    yield from (f"- {cause.sentence}" for cause in causes)


def describe_levels(model: Transformer, config: TrialConfig) -> Iterator[str]:
    """The learned weights of the levels of IDs, where there are any."""
    if isinstance(model.encoding, Mixture):
        names = level_names(config.task, config.position)
        weights = model.encoding.weights().detach().tolist()
        text = ", ".join(f"{name} {w:.2f}" for name, w in zip(names, weights, strict=True))
        yield f"weights of the levels of IDs: {text}"


def _by_level(likenesses: Sequence[Likeness]) -> list[list[str]]:
    """Per level: its name and the numbers of both patterns."""
    rows: dict[str, list[str]] = {}
    for like in likenesses:
        numbers = (like.mass, like.mass_beyond_bos, like.overlap, like.mass_at_stop)
        rows.setdefault(like.level, [like.level]).extend(f"{n:.3f}" for n in numbers)
    return list(rows.values())


def _name_head(head: Head, averaged: AttentionMap) -> str:
    """ "2" in a model of one layer, "1.2" for the second head of the first of several."""
    layer = f"{head.layer + 1}." if len(averaged.weights) > 1 else ""
    return f"{layer}{head.head + 1}"

"""A diagnosis in sentences: the causes of failure, strongest first."""

from collections.abc import Iterable
from dataclasses import dataclass

from pcore.config import format_numbers
from pcore.diagnosis.failures import Breakdown, Diagnosis

LEAST = 0.1  # explained variance below which a breakdown is not a cause
# What a sentence says of the cases of a breakdown, by its name; "{}" stands for the keys. Of causes
# that explain equally much the first one here comes first: it is more specific.
PHRASES = {
    "difference of operand lengths": "when the shortest operand lacks {} digits of the longest",
    "position ID": "at position ID {}",
    "position ID at the stop": "when it must stop at position ID {}",
    "place": "at symbol {} of the response",
    "significance": "at the digit of significance {} (1 = ones digit)",
}
KINDS = {
    "missed stop": "It does not stop: all symbols right, but EOS is missing after the last one",
    "early stop": "It stops too early: its first error is an EOS",
    "wrong symbol": "It writes wrong symbols: its first error is a symbol other than EOS",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Cause:
    """One finding."""

    name: str
    # 0 to 1: the share of failures of a kind, or what a breakdown explains times the share of
    # failures (as tested) that it is about
    strength: float
    sentence: str


def name_causes(diagnosis: Diagnosis) -> tuple[Cause, ...]:
    """The commonest kind of failure, then the breakdowns that explain most of the variance.

    Empty if nothing failed, as tested or at other starts.
    """
    causes: list[Cause] = []
    if diagnosis.num_failed:
        numbers = (diagnosis.num_missed_stop, diagnosis.num_early_stop, diagnosis.num_wrong_symbol)
        number, name = max(zip(numbers, KINDS, strict=True))
        share = number / diagnosis.num_failed
        text = f"{KINDS[name]} ({percent(share)} of {diagnosis.num_failed} failures)."
        causes.append(Cause(name=name, strength=share, sentence=text))
    causes += _compare_starts(diagnosis)
    weighed = [(_weigh(breakdown, diagnosis), breakdown) for breakdown in diagnosis.breakdowns]
    weighed.sort(key=lambda entry: (-round(entry[0], 1), _rank(entry[1].name)))
    for strength, breakdown in weighed:
        if strength >= LEAST:
            sentence = _describe(breakdown)
            causes.append(Cause(name=breakdown.name, strength=strength, sentence=sentence))
    return tuple(causes)


def _compare_starts(diagnosis: Diagnosis) -> list[Cause]:
    """Whether the same examples fail much more or much less often at other starts."""
    if diagnosis.num_failed_elsewhere is None:
        return []
    tested = diagnosis.num_failed / diagnosis.num_examples
    elsewhere = diagnosis.num_failed_elsewhere / diagnosis.num_examples
    strength = abs(tested - elsewhere)
    if strength < LEAST:
        return []
    less = "fewer" if elsewhere < tested else "more"
    text = f"At other starts {less} of the same examples fail ({percent(elsewhere)} instead of "
    text += f"{percent(tested)}), so position IDs matter, not length alone."
    return [Cause(name="start", strength=strength, sentence=text)]


def _weigh(breakdown: Breakdown, diagnosis: Diagnosis) -> float:
    """What a breakdown explains times the share of failures that it is about."""
    if breakdown.about == "everything" or not diagnosis.num_failed:
        return breakdown.explained
    missed = diagnosis.num_missed_stop / diagnosis.num_failed
    return breakdown.explained * (missed if breakdown.about == "stop" else 1 - missed)


def worst_keys(breakdown: Breakdown) -> tuple[int, ...]:
    """The keys that fail at least half as often as the worst one."""
    least = max(breakdown.shares, default=0.0) / 2
    shares = zip(breakdown.keys, breakdown.shares, strict=True)
    return tuple(key for key, share in shares if share and share >= least)


def percent(share: float) -> str:
    """0.987 as "98.7 %"; only all is 100 % and only nothing is 0 %."""
    if share in (0, 1):
        return f"{100 * share:.0f} %"
    return f"{min(max(100 * share, 0.1), 99.9):.1f} %"


def _describe(breakdown: Breakdown) -> str:
    bad, stem = worst_keys(breakdown), _stem(breakdown.name)
    phrase = PHRASES.get(stem, f"where {breakdown.name} is {{}}")
    keys = format_numbers(bad).replace(",", ", ")
    where = phrase.format(keys) + breakdown.name.removeprefix(stem)
    rest = _share(breakdown, set(breakdown.keys) - {*bad})
    text = f"Wrong in {_share(breakdown, bad)} of {breakdown.unit} {where}, in {rest} of all others"
    explained = percent(breakdown.explained)
    return f"{text} ({breakdown.asked}). Explains {explained} of the variance."


def _share(breakdown: Breakdown, keys: Iterable[int]) -> str:
    """Wrong cases among those with these keys."""
    at = [breakdown.keys.index(key) for key in keys]
    cases, wrong = (
        sum(counts[i] for i in at) for counts in (breakdown.num_cases, breakdown.num_wrong)
    )
    return percent(wrong / cases) if cases else "none"


def _stem(name: str) -> str:
    """The name of a breakdown without its level."""
    return name.partition(" (")[0]


def _rank(name: str) -> int:
    return [*PHRASES, _stem(name)].index(_stem(name))

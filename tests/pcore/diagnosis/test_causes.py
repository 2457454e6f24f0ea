"""A planted fault is named as the cause of the failures, and first among its like."""

import pytest

from pcore.config import override
from pcore.diagnosis.causes import name_causes, percent, worst_keys
from pcore.diagnosis.failures import (
    Breakdown,
    analyse_failures,
)
from pcore.evaluation import judge, make_test_set
from pcore.model import make_model
from tests.support import planted_adders as planted

LENGTH = 6


@pytest.fixture
def config(tiny_config):
    """Addition with random starts on 20 positions, tested at 6 digits."""
    return override(tiny_config, {"eval.num_examples": 150, "position.start": "wrapped"})


def diagnose(fault, config):
    diagnosis = analyse_failures(planted.Adder(fault), config, LENGTH)
    return diagnosis, name_causes(diagnosis)


def find(diagnosis, name):
    (found,) = [b for b in diagnosis.breakdowns if b.name == name]
    return found


def wrong_keys(breakdown):
    pairs = zip(breakdown.keys, breakdown.num_wrong, strict=True)
    return [key for key, num_wrong in pairs if num_wrong]


def test_a_perfect_adder_has_no_causes(config):
    diagnosis, causes = diagnose(planted.none, config)
    assert diagnosis.num_failed == diagnosis.num_failed_elsewhere == 0
    assert causes == ()
    assert all(not any(b.num_wrong) and b.explained == 0 for b in diagnosis.breakdowns)


def test_stopping_early_is_named_with_its_place(config):
    diagnosis, causes = diagnose(planted.stops_early, config)
    assert (diagnosis.num_early_stop, diagnosis.num_examples) == (150, 150)
    assert [cause.name for cause in causes[:2]] == ["early stop", "place"]
    assert causes[0].sentence.startswith("It stops too early")
    assert "Wrong in 100 % of predictions at symbol 3 of the response, in 0 %" in causes[1].sentence
    assert causes[1].strength == pytest.approx(1)


def test_a_missing_stop_is_named(config):
    diagnosis, causes = diagnose(planted.never_stops, config)
    assert diagnosis.num_missed_stop == 150
    assert causes[0].name == "missed stop"
    assert "at symbol 8 of the response" in causes[1].sentence  # after the 7 digits of the sum
    assert not wrong_keys(find(diagnosis, "significance"))


def test_a_confused_id_is_named_and_its_digit_is_not(config):
    diagnosis, causes = diagnose(planted.confuses_id_7, config)
    # as tested ID 7 is always that of the sixth digit, so every example fails the same way
    assert wrong_keys(find(diagnosis, "position ID")) == [7]
    assert 0 < diagnosis.num_failed_elsewhere < diagnosis.num_failed == 150
    names = [cause.name for cause in causes]
    assert names[0] == "wrong symbol"
    assert (
        "At other starts fewer of the same examples fail" in causes[names.index("start")].sentence
    )
    assert names.index("position ID") < names.index("significance")
    assert "at position ID 7, in 0 % of all others" in causes[names.index("position ID")].sentence


def test_operands_of_unlike_length_are_named_though_the_test_set_has_none(config):
    diagnosis, causes = diagnose(planted.fails_on_short_operands, config)
    by_length = find(diagnosis, "difference of operand lengths")
    assert by_length.keys == list(range(6))
    assert diagnosis.num_failed <= 2  # numbers that end in 000
    assert causes[-1].name == "difference of operand lengths"


def test_kinds_are_those_of_evaluation_and_cases_add_up(config):
    model = make_model(config)
    diagnosis = analyse_failures(model, config, 3)
    counts = judge(model, make_test_set(config, 3), config).counts
    for name in ("num_examples", "num_missed_stop", "num_early_stop", "num_wrong_symbol"):
        assert getattr(diagnosis, name) == getattr(counts, name)
    totals = {b.name: (sum(b.num_cases), sum(b.num_wrong)) for b in diagnosis.breakdowns}
    for name in ("significance", "position ID"):
        assert totals[name][0] == 4 * 150
    assert totals["position ID at the stop"][0] == 150
    assert totals["place"][0] == 5 * 150
    parts = totals["position ID"], totals["position ID at the stop"]
    assert totals["place"][1] == sum(wrong for _, wrong in parts)


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"task.name": "copy"}, ["position"]),
        ({"task.name": "minesweeper"}, ["position ID (column)", "position ID (row)"]),
        ({"task.num_operands": 3}, ["difference of operand lengths"]),
        ({"position.encoding": "none"}, ["significance"]),
        ({"task.scratchpad": True, "position.max_position": 40}, ["operand"]),
    ],
    ids=str,
)
def test_other_tasks_get_what_is_defined_for_them(config, changes, names):
    changed = override(config, changes | {"eval.num_examples": 20})
    diagnosis = analyse_failures(make_model(changed), changed, 3)
    found = {breakdown.name for breakdown in diagnosis.breakdowns}
    assert set(names) <= found
    assert "place" in found
    assert all(share <= 1 for b in diagnosis.breakdowns for share in b.shares)


def test_a_cause_weighs_as_much_as_the_failures_it_speaks_of(config):
    """Ids that fail at the stop only are no cause where nearly all failures are wrong digits."""

    def fault(moment):
        if moment.right == "$":
            return "0" if moment.reader == 9 else "$"  # at start 1 six digits stop at ID 8
        return planted.confuses_id_7(moment)

    diagnosis, causes = diagnose(fault, config)
    assert find(diagnosis, "position ID at the stop").explained == 1
    assert diagnosis.num_missed_stop == 0
    assert "position ID at the stop" not in [cause.name for cause in causes]


def test_explained_is_one_for_a_cause_and_nothing_for_chance():
    def explained(*pairs):
        cases, wrong = (list(column) for column in zip(*pairs, strict=True))
        asked = {"name": "x", "asked": "as tested", "unit": "examples"}
        keys = list(range(len(pairs)))
        breakdown = Breakdown(**asked, keys=keys, num_cases=cases, num_wrong=wrong)
        return breakdown.explained, [*worst_keys(breakdown)]

    assert explained((10, 10), (30, 0)) == (1.0, [0])
    assert explained((100, 20), (100, 20))[0] == 0
    assert explained((50, 0), (50, 0)) == (0.0, [])
    assert explained((50, 50), (50, 50))[0] == 0
    # two groups of 100 with 60 % and 20 %: eta^2 = 0.04 / 0.24 = 1/6, less one part in 198
    assert explained((100, 60), (100, 20))[0] == pytest.approx(1 - 199 / 198 * 5 / 6)


def test_shares_are_never_rounded_to_all_or_nothing():
    assert [percent(x) for x in (0.0, 0.00001, 0.5, 0.99999, 1.0)] == [
        "0 %",
        "0.1 %",
        "50.0 %",
        "99.9 %",
        "100 %",
    ]


def test_no_other_starts_are_asked_where_the_ids_of_training_end(config):
    beyond = override(config, {"position.encoding": "rotary"})
    diagnosis = analyse_failures(planted.Adder(planted.none), beyond, 19)  # up to ID 21 of 20
    assert {b.asked for b in diagnosis.breakdowns} == {"as tested", "other operands"}
    assert diagnosis.num_failed_elsewhere is None

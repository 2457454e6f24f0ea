"""`pcore solve` and `explain`: what they print is what they count."""

import dataclasses

import pytest

from pcore.checkpoint import load_model
from pcore.cli.trained import format_diagnosis, format_solution
from pcore.config import override
from pcore.decoding import Solution
from pcore.diagnosis.failures import Diagnosis, analyse_failures
from pcore.tasks import TASKS


def test_explain_prints_what_the_diagnosis_counts(save, pcore):
    file = save({"position.start": "fixed"})
    code, text, err = pcore("explain", file, "--examples", 40)
    assert (code, err) == (0, "")
    model, config = load_model(file)
    found = analyse_failures(model, override(config, {"eval.num_examples": 40}), 6)  # longest
    assert f"{found.num_missed_stop} do not stop, {found.num_early_stop} stop too early" in text
    assert "addition at length 6" in text


def test_explain_counts_at_a_second_length_too(save, pcore):
    task = {"task.name": "multiplication", "task.scratchpad": True}
    file = save(task | {"position.level_tables": "separate"})
    code, text, err = pcore("explain", file, "--length", "3", "--second", "2", "--examples", "40")
    assert (code, err) == (0, "")
    model, config = load_model(file)
    found = analyse_failures(model, override(config, {"eval.num_examples": 40}), 3, 2)
    layout = config.task.layout((3, 2))
    (place,) = (breakdown for breakdown in found.breakdowns if breakdown.name == "place")
    assert max(place.keys) == len(layout.sources) - layout.num_query + 1  # EOS
    assert "multiplication at length 3 and second digits 2" in text
    assert f"{found.num_missed_stop} do not stop, {found.num_early_stop} stop too early" in text


WRONG = "wrong at digit {}, as the model writes them (ones digit first)\n  truth "


@pytest.mark.parametrize(
    ("task", "query", "response", "truth", "stopped", "shown"),
    [
        ("addition", "653+49", "2070", "2070", True, "653+49 = 0702"),
        ("addition", "12+34", "650", "640", True, WRONG.format("2 of 3") + "046\n         ^"),
        ("addition", "12+34", "6", "640", True, "wrong at digit 2 of 3, where it stops too early"),
        ("addition", "12+34", "640", "640", False, "12+34 = 046: wrong, all digits are right but"),
        ("multiplication", "12*34", "8040", "8040", True, "12*34 = 0408"),
        ("copy", "12", "13", "12", True, "12 = 13: wrong at symbol 2 of 2\n  truth 12\n         ^"),
        ("reverse", "012", "210", "210", True, "012 = 210"),
    ],
)
def test_an_answer_reads_as_a_number_and_its_first_wrong_digit_is_marked(
    task, query, response, truth, stopped, shown
):
    solution = Solution(query=query, response=(*response,), truth=(*truth,), stopped=stopped)
    assert shown in format_solution(solution, TASKS[task]())


@pytest.mark.parametrize("place", [1, 28, 473, 500, 501])
def test_the_first_wrong_digit_of_a_long_answer_is_in_the_part_that_is_shown(place):
    truth = [str(i % 10) for i in range(501)]
    response = [*truth[: place - 1], "x", *truth[place:]]
    solution = Solution(query="q", response=(*response,), truth=(*truth,), stopped=True)
    first, shown, mark = format_solution(solution, TASKS["addition"]()).splitlines()
    assert f"wrong at digit {place} of 501, as the model writes them" in first
    assert shown[mark.index("^")] == truth[place - 1]
    assert len(shown) < 80


def test_solve_prints_answers_and_how_many_are_right(save, pcore):
    code, out, err = pcore("solve", file := save(), "12+34", "5+6")
    assert (code, err) == (0, "")
    assert out.startswith("12+34 = ")
    assert out.splitlines()[-1].endswith("of 2 right")
    assert pcore("solve", file, "-", stdin="12+34\n\n5+6\n")[1] == out
    assert pcore("solve", file, "12+34=", "5+6=")[1] == out


@pytest.mark.parametrize(
    ("changes", "query", "said"),
    [
        ({}, "1+2+3", "'1+2+3' has operands = 3, the model was trained with 2"),
        ({"eval.second_lengths": "4"}, "1+2+3", "operands = 3, the model was trained with 2"),
        ({"eval.second_lengths": "3"}, "1+2+3", None),
        ({"task.num_operands": 4, "task.min_operands": 2}, "1+2+3", None),
        ({"task.name": "multiplication"}, "12*345", "has second digits = 3, the model"),
        ({}, f"{'1' * 20}+1", "position IDs up to 20, below 22"),
    ],
)
def test_solve_refuses_what_the_model_was_not_trained_for(save, pcore, changes, query, said):
    code, _, err = pcore("solve", save(changes), query)
    assert code == (2 if said else 0), err
    assert (said or "") in err
    assert err.count("\n") == bool(said)


def test_few_failures_have_no_causes_and_causes_that_are_none_are_said():
    few = Diagnosis(
        length=5,
        num_examples=500,
        num_missed_stop=0,
        num_early_stop=0,
        num_wrong_symbol=6,
        num_failed_elsewhere=4,
        breakdowns=(),
    )
    assert list(format_diagnosis(few))[-1] == "why: too few to tell, 6 of 500 failed"
    many = dataclasses.replace(few, num_wrong_symbol=100, num_failed_elsewhere=None)
    *_, kind, none = format_diagnosis(many)
    assert kind.startswith("- It writes wrong symbols")
    assert none.startswith("- No cause was found: ")
    nothing = dataclasses.replace(few, num_wrong_symbol=0, num_failed_elsewhere=0)
    assert list(format_diagnosis(nothing))[-1] == "nothing failed"

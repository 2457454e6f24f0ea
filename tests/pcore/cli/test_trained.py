"""`pcore attention`, `ablate`, `explain` and `reach`: what they print is what they count."""

import re

import pytest

from pcore.cli import trained
from pcore.cli.trained import find_longest
from pcore.config import override
from pcore.diagnosis.attention import average_attention
from pcore.diagnosis.failures import analyse_failures
from pcore.evaluation.evaluate import evaluate_length
from pcore.model.checkpoint import load_model
from pcore.model.transformer import make_model
from tests.support import planted_adders as planted


def test_attention_prints_two_numbers_for_every_head_and_the_baseline(save, pcore):
    file = save()
    code, text, err = pcore("attention", file, "--length", 4, "--examples", 50)
    assert (code, err) == (0, "")
    averaged = average_attention(*load_model(file), 4, 50)
    rows = {line.split()[0]: line.split() for line in text.splitlines() if line.strip()}
    names = ("1.1", "1.2", "2.1", "2.2")
    assert set(names) | {"even"} <= set(rows)
    for name, head in zip(names, averaged.heads, strict=True):
        following, same = head.likenesses
        assert rows[name][5:] == [
            f"{number:.3f}"
            for like in (following, same)
            for number in (like.mass, like.mass_beyond_bos, like.overlap, like.mass_at_stop)
        ]
    assert rows["even"][2] == f"{averaged.even[0].mass:.3f}"


def test_a_model_without_coupled_ids_is_told_so(save, pcore):
    file = save({"position.encoding": "none"})
    messages = {
        "attention": "this model has no coupled IDs",
        "explain": "position IDs do nothing in this model",
    }
    for command, message in messages.items():
        code, text, err = pcore(command, file, "--length", 3, "--examples", 20)
        assert (code, err) == (0, "")
        assert message in text
        assert "even" not in text.split()


def test_ablate_prints_evaluation_without_every_component(save, pcore):
    code, text, err = pcore("ablate", save(), "--length", 2, "--examples", 40)
    assert (code, err) == (0, "")
    names = [line.split("  ")[1] for line in text.splitlines()[1:]]
    assert names == [
        "the whole model",
        *(
            f"without layer {layer}{component}"
            for layer in (1, 2)
            for component in (", head 1", ", head 2", ", attention", ", feed-forward", "")
        ),
    ]


def test_explain_prints_what_the_diagnosis_counts(save, pcore):
    file = save({"position.start": "fixed"})
    code, text, err = pcore("explain", file, "--examples", 40)
    assert (code, err) == (0, "")
    model, config = load_model(file)
    found = analyse_failures(model, override(config, {"eval.num_examples": 40}), 6)  # longest
    assert f"{found.num_missed_stop} do not stop, {found.num_early_stop} stop too early" in text
    assert "addition at length 6" in text
    assert "position IDs never trained (significance): 6-20" in text  # trained on 1-3 digits
    assert "bf16 autocast changes the verdict of" in text


def test_explain_counts_position_ids_where_a_list_of_them_would_be_long(save, pcore):
    rings = {"position.encoding": "residues", "position.moduli": (11, 13, 17, 19)}
    far = {"position.max_position": 46_189, "position.start": "wrapped", "model.d_model": 64}
    file = save(rings | far)
    code, text, err = pcore("explain", file, "--examples", 10)
    assert (code, err) == (0, "")
    assert re.search(r"position IDs never trained \(significance\): [\d,]+ of 46,189\n", text)


def breaks_beyond_4(moment):
    return planted.stops_early(moment) if len(moment.a) > 4 else moment.right


@pytest.mark.parametrize("stop_error", [0.0, 0.05])
def test_reach_of_a_planted_adder(tiny_config, stop_error):
    config = override(tiny_config, {"eval.num_examples": 200, "eval.stop_error": stop_error})
    longest, visited = find_longest(planted.Adder(breaks_beyond_4), config, [1, 2, 3, 4, 5, 6, 7])
    assert longest == 4
    assert len(visited) == 4  # of 7
    for length, counts in visited.items():
        assert counts.num_examples == (200 if length <= 4 or not stop_error else 100)


def test_no_length_is_solved(tiny_config):
    assert find_longest(planted.Adder(planted.stops_early), tiny_config, [3, 4])[0] == 0


def test_a_model_that_solves_the_longest_length_is_asked_once(tiny_config):
    longest, visited = find_longest(planted.Adder(planted.none), tiny_config, [1, 2, 3, 6])
    assert (longest, len(visited)) == (6, 1)


def test_a_length_out_of_reach_is_refused_before_anything_is_evaluated(tiny_config, monkeypatch):
    monkeypatch.setattr(trained, "evaluate_length", None)
    with pytest.raises(ValueError, match="max_position=20 is below 42"):
        find_longest(make_model(tiny_config), tiny_config, [2, 40])
    with pytest.raises(ValueError, match="names no length"):
        find_longest(make_model(tiny_config), tiny_config, [])


def test_reach_prints_what_it_visited(save, pcore):
    file = save({"eval.num_examples": 120})
    code, out, _ = pcore("reach", file, "--lengths", "1-8", "--stop-error", "0.05")
    assert code == 0
    assert "L95: 0, from 4 of 8 lengths, if exact match does not rise with length" in out
    counts = evaluate_length(*load_model(file), "", 0, "train", 1, None).counts
    assert f"{counts.num_correct} of 100" in out

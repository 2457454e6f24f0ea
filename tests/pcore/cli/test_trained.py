"""`pcore attention` and `explain`: what they print is what they count."""

from pcore.checkpoint import load_model
from pcore.config import override
from pcore.diagnosis.attention import average_attention
from pcore.diagnosis.failures import analyse_failures


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
    code, text, err = pcore("attention", file, "--length", 3, "--examples", 20)
    assert (code, err) == (0, "")
    assert "this model has no coupled IDs" in text
    assert "even" not in text.split()


def test_explain_prints_the_weights_of_a_mixture(save, pcore):
    ids = {"position.ids": "candidates", "position.max_position": 30}
    mixture = ids | {"position.encoding": "mixture"}
    code, text, _ = pcore("explain", save(mixture), "--length", 3, "--examples", 20)
    assert code == 0
    assert "weights of the levels of IDs: " in text


def test_explain_prints_what_the_diagnosis_counts(save, pcore):
    file = save({"position.start": "fixed"})
    code, text, err = pcore("explain", file, "--examples", 40)
    assert (code, err) == (0, "")
    model, config = load_model(file)
    found = analyse_failures(model, override(config, {"eval.num_examples": 40}), 6)  # longest
    assert f"{found.num_missed_stop} do not stop, {found.num_early_stop} stop too early" in text
    assert "addition at length 6" in text
    assert "bf16 autocast changes the verdict of" in text

"""What is kept of a model's mechanism: rows, their file, and the two ways to make them."""

import pytest

from pcore.config import override, trial_id
from pcore.diagnosis.attention import compare, even_weights, predicted_keys, visible_keys
from pcore.diagnosis.causes import name_causes
from pcore.diagnosis.failures import analyse_failures
from pcore.diagnosis.mechanism import choose_evenly, mechanism_rows
from pcore.evaluation import with_examples
from pcore.model import make_model
from sweeps.__main__ import main
from sweeps.baseline import addition
from sweeps.engine.store import mechanisms
from sweeps.engine.store.folder import Folder
from sweeps.engine.store.store import Store
from sweeps.engine.trial import analyse, attempt
from sweeps.engine.trial.attempt import Settings, run_attempt
from tests.support import planted_adders as planted
from tests.support.rows.example_store import view_rows

CONFIG = override(addition("smoke"), {"optim.num_steps": 2, "eval.num_examples": 20})


def rows_of(config, **changes):
    return list(
        mechanism_rows(make_model(override(config, changes)), override(config, changes), 10)
    )


def test_heads_have_a_row_for_each_length_pattern_and_level():
    rows = [row for row in rows_of(CONFIG) if row["kind"] == "head"]
    lengths = (3, 5, 6)  # the longest trained, and the two that are tested
    wanted = {(n, head, p) for n in lengths for head in (0, 1) for p in ("next", "same")}
    assert {(row["length"], row["head"], row["pattern"]) for row in rows} == wanted
    assert len(rows) == len(wanted)
    keys = predicted_keys(CONFIG.task.encode("653+049").relative_ids[0], 8)
    even = compare(even_weights(visible_keys(8, 13)), keys, CONFIG.task.levels)
    assert (rows[0]["length"], rows[0]["pattern"]) == (3, "next")
    assert rows[0]["even_beyond_bos"] == pytest.approx(even[0].mass_beyond_bos)


def test_a_planted_failure_is_in_the_rows_as_counts_and_in_words(monkeypatch):
    monkeypatch.setattr("pcore.diagnosis.mechanism._head_rows", lambda found: ())
    monkeypatch.setattr("pcore.diagnosis.mechanism.average_attention", lambda *a: None)
    config = override(CONFIG, {"position.start": "wrapped"})
    rows = list(mechanism_rows(planted.Adder(planted.confuses_id_7), config, 40))
    diagnosis = analyse_failures(planted.Adder(planted.confuses_id_7), with_examples(config, 40), 6)
    (by_id,) = [row for row in rows if row.get("breakdown") == "position ID" and row["length"] == 6]
    assert {k for k, n in zip(by_id["keys"], by_id["num_wrong"], strict=True) if n} == {7}
    assert by_id["explained"] == pytest.approx(1)
    told = [row["sentence"] for row in rows if row["kind"] == "cause" and row["length"] == 6]
    assert told == [cause.sentence for cause in name_causes(diagnosis)]
    assert any("at position ID 7" in sentence for sentence in told)


def test_lengths_are_chosen_evenly_with_the_longest():
    assert choose_evenly((5, 6), 6) == (5, 6)
    assert choose_evenly((), 2) == ()
    assert choose_evenly(tuple(range(35, 201, 5)), 6)[-1] == 200
    assert choose_evenly((1, 2, 3, 4, 5), 2) == (3, 5)


def test_a_file_gives_back_its_rows(tmp_path):
    folder, rows = Folder(tmp_path), rows_of(CONFIG)
    mechanisms.write(folder, "ab12", rows)
    found = mechanisms.load(folder, ["ab12", "cd34"]).to_pylist()
    assert len(found) == len(rows)
    for row, expected in zip(found, rows, strict=True):
        assert row["trial_id"] == "ab12"
        assert set(row) == set(mechanisms.COLUMNS)
        for name, value in expected.items():
            assert row[name] == (pytest.approx(value) if isinstance(value, float) else value)


def test_an_attempt_analyses_its_model_if_asked_and_diagnose_catches_up(tmp_path, capfd):
    asked, unasked = CONFIG, override(CONFIG, {"seed": 1})
    outcome = run_attempt(asked, Settings(results=str(tmp_path), diagnose=10))
    assert outcome.status == "ok", outcome.error
    run_attempt(unasked, Settings(results=str(tmp_path)))
    store = Store(tmp_path)
    assert set(mechanisms.names(store.folder)) == {trial_id(asked)}
    kept = mechanisms.load(store.folder, [trial_id(asked)])
    names = [trial_id(asked), trial_id(unasked)]
    store.write_view(view_rows({"a": [asked, unasked]}, "tiny", "smoke"))
    assert main(["measure", "--results", str(tmp_path), "--examples", "10"]) == 0
    assert "2 trained models: 1 measured now, 1 before, 0 without weights" in capfd.readouterr().out
    assert set(mechanisms.names(store.folder)) == set(names)
    assert main(["measure", "--results", str(tmp_path), "--examples", "10", "--force"]) == 0
    assert mechanisms.load(store.folder, names[:1]) == kept  # from weights on disk: the same


def test_diagnose_says_whose_weights_are_gone_or_another_trials(tmp_path, capfd):
    store, other = Store(tmp_path), override(CONFIG, {"seed": 1})
    for config in (CONFIG, other):
        run_attempt(config, Settings(results=str(tmp_path)))
    first, second = (tmp_path / f"checkpoints/{trial_id(c)}/last.pt" for c in (CONFIG, other))
    second.replace(first)
    store.write_view(view_rows({"a": [CONFIG, other]}, "tiny", "smoke"))
    assert main(["measure", "--results", str(tmp_path)]) == 0
    told = capfd.readouterr().out
    assert "0 measured now, 0 before, 1 without weights" in told
    assert "1 of other code than now" in told


def test_an_analysis_that_fails_does_not_cost_the_trial(tmp_path, monkeypatch, capfd):
    def broken(*arguments):
        raise RuntimeError("no such head")

    monkeypatch.setattr(analyse, "mechanism_rows", broken)
    outcome = attempt.run_attempt(CONFIG, Settings(results=str(tmp_path), diagnose=10))
    assert outcome.status == "ok"
    (row,) = mechanisms.load(Folder(tmp_path), [trial_id(CONFIG)]).to_pylist()
    assert row["kind"] == "error"
    assert "no such head" in row["sentence"]
    monkeypatch.undo()
    Store(tmp_path).write_view(view_rows({"a": [CONFIG]}, "tiny", "smoke"))
    assert main(["measure", "--results", str(tmp_path), "--examples", "10"]) == 0
    said = capfd.readouterr()
    assert "failed: RuntimeError: no such head" in said.err
    assert "1 measured now, 0 before" in said.out

"""Searches: tuned equally, on the near range alone, and never twice what was trained once."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.__main__ import main as show
from analysis.load import load_search, usual_scale
from pcore.config import TrialConfig, override, trial_id
from sweeps import packing_search
from sweeps.__main__ import main as command
from sweeps.baseline import addition
from sweeps.engine.launch import launch
from sweeps.engine.plan import make_plan
from sweeps.engine.search.results import read_scores
from sweeps.engine.search.rounds import Replay, main
from sweeps.engine.search.space import (
    Budget,
    Choice,
    Range,
    Search,
    prepare_arms,
)
from sweeps.engine.store.store import Store

BASE = override(addition("smoke"), {"optim.num_steps": 90, "eval.num_examples": 20})
ARMS = {"one": BASE, "two": override(BASE, {"model.num_layers": 2})}
SPACE = {
    "optim.learning_rate": Range(1e-5, 1e-1),
    "optim.weight_decay": Choice((0.0, 0.1)),
}
QUIET = ["--scale", "smoke", "--executor", "inline", "--no-mlflow", "--no-report"]
PEAK = {1: -2.0, 2: -3.5}  # the best log10 of the learning rate, by depth


def make_search(num: int = 9, arms=ARMS, space=SPACE, **budget) -> Search:
    return Search(
        name="tiny",
        title="A tiny search",
        claim="A claim.",
        arms=lambda scale: arms,
        space=space,
        budget=dict.fromkeys(("smoke", "laptop", "paper"), Budget(configurations=num, **budget)),
    )


class Lab:
    """Stands in for an executor: writes the rows of a training whose outcome is a formula."""

    def __init__(self, results, stop_after: float = math.inf, num_correct: int | None = None):
        self.store, self.trained = Store(results), []
        self.stop_after, self.num_correct = stop_after, num_correct

    def __call__(self, configs: Mapping[str, TrialConfig]) -> None:
        for config in configs.values():
            if len(self.trained) >= self.stop_after:
                raise KeyboardInterrupt
            self.write(config)
            self.trained.append(trial_id(config))

    def write(self, config: TrialConfig) -> None:
        far = abs(math.log10(config.optim.learning_rate) - PEAK[config.model.num_layers])
        quality = max(0.0, 1 - far / 4 - config.optim.weight_decay) * config.optim.num_steps / 90
        tokens = self.num_correct if self.num_correct is not None else int(10000 * quality)
        row = {"checkpoint": "last", "length": 4, "num_examples": 100, "num_correct": 0}
        row |= {"num_tokens": 10000, "num_correct_tokens": tokens, "loss_sum": 10000 * far}
        # Whoever reads these divides by nothing.
        poison = {"num_tokens": None, "num_correct_tokens": None}
        rows = [row | {"range": "near"}, row | poison | {"range": "test"}]
        rows += [row | poison | {"range": "near", "checkpoint": "oracle"}]
        self.store.write(config, "ok", {}, [], [*rows, row | poison | {"range": "train"}])


def find(search: Search, results, lab):
    replay, store = Replay(search, "smoke", search.budget_at("smoke")), Store(results)
    while cells := replay.next_cells(store):
        lab({cell.label: cell.config for cell in cells})
    return replay.conclude()


def test_every_arm_gets_the_same_budget_and_most_configurations_are_stopped_early(tmp_path):
    lab = Lab(tmp_path)
    best, failed = find(make_search(18), tmp_path, lab)
    assert not failed
    assert len(set(lab.trained)) == len(lab.trained)
    for label, depth in (("one", 1), ("two", 2)):
        found = best[label]
        assert found["num_configurations"] == 18
        first, _, full = found["num_per_rung"]
        assert first == 18
        assert 1 <= full < 10
        assert found["num_trained_steps"] < 18 * (10 + 30 + 90) / 2
        assert abs(math.log10(found["optim.learning_rate"]) - PEAK[depth]) < 0.75
        assert found["optim.weight_decay"] == 0.0
        assert len(found["tried"]) == 18


def test_interrupted_anywhere_it_ends_as_if_nothing_had_happened(tmp_path):
    search = make_search(5)
    whole = Lab(tmp_path / "whole")
    expected = find(search, tmp_path / "whole", whole)
    trained: list[str] = []
    for _ in range(100):
        lab = Lab(tmp_path / "cut", stop_after=3)
        try:
            found = find(search, tmp_path / "cut", lab)
        except KeyboardInterrupt:
            trained += lab.trained
            continue
        trained += lab.trained
        break
    assert found == expected
    assert trained == whole.trained


def test_a_larger_budget_goes_on_with_what_was_decided(tmp_path):
    small, large = Lab(tmp_path / "a"), Lab(tmp_path / "b")
    find(make_search(4), tmp_path / "a", small)
    more = Lab(tmp_path / "a")
    continued = find(make_search(9), tmp_path / "a", more)
    assert continued == find(make_search(9), tmp_path / "b", large)
    assert sorted(small.trained + more.trained) == sorted(large.trained)


def read_winners(results: Path) -> dict[str, dict[str, Any]]:
    return json.loads((results / "searches" / "tiny-smoke.json").read_text())


def stand_in(monkeypatch, lab: type[Lab]) -> None:
    """The command line runs its trials in this laboratory."""

    def run_sweeps(sweeps, options):
        (sweep,) = sweeps
        lab(options.results)({t.cell.label: t.config for t in sweep.trials(options.scale)})

    monkeypatch.setattr(launch, "run_sweeps", run_sweeps)


def test_the_first_configuration_is_the_arm_as_it_is_or_the_plan_says_no(tmp_path, capfd):
    rates = Choice(("1e-2", "2e-2", "1e-3", "3e-3", "4e-3"))
    inside = make_search(1, space={"optim.learning_rate": rates})
    best, _ = find(inside, tmp_path, Lab(tmp_path))
    assert [won["optim.learning_rate"] for won in best.values()] == ["1e-3", "1e-3"]
    for rate, told in (("1e-3", False), ("5e-3", True)):
        arms = {"one": override(BASE, {"optim.learning_rate": rate}), "two": BASE}
        assert main(replace(inside, arms=lambda scale, arms=arms: arms), ["--plan"]) == 0
        sentence = "outside the space, and so not tried: the values of one\n"
        assert (sentence in capfd.readouterr().out) == told


def test_a_search_says_its_budget_and_keeps_its_winners(tmp_path, capfd, monkeypatch):
    stand_in(monkeypatch, Lab)
    assert main(make_search(4), [*QUIET, "--results", str(tmp_path)]) == 0
    printed = capfd.readouterr().out
    assert "chosen on the near range; the test range was neither evaluated nor read" in printed
    assert "2 arms x 4 configurations x 3 rungs" in printed
    assert "one run of each configuration (seed 1000)" in printed
    kept = read_winners(tmp_path)
    assert kept["one"]["num_configurations"] == kept["two"]["num_configurations"] == 4
    assert all(kept[label].keys() >= SPACE.keys() for label in ARMS)


def test_what_was_tried_is_kept_and_shown(tmp_path, capsys, monkeypatch):
    stand_in(monkeypatch, Lab)
    words = ["--scale", "smoke", "--results", str(tmp_path)]
    assert main(make_search(9), [*QUIET, "--results", str(tmp_path)]) == 0
    assert "python -m analysis search tiny --scale smoke --results" in capsys.readouterr().out
    tried = load_search(tmp_path, "tiny", "smoke")
    assert tried.groupby("arm").size().to_dict() == {"one": 9, "two": 9}
    assert set(tried["num_steps"]) == {10, 30, 90}
    best = read_winners(tmp_path)
    for label, winner in best.items():
        (row,) = tried[(tried["arm"] == label) & tried["is_best"]].to_dict("records")
        assert all(row[name] == winner[name] for name in SPACE)
        full = tried[(tried["arm"] == label) & (tried["num_steps"] == 90)]
        assert row["near_score"] == full["near_score"].min()
    assert show(["search", "tiny", *words]) == 0
    printed = capsys.readouterr().out
    assert printed.count("winner") == 2
    assert f"{best['one']['optim.learning_rate']:g}" in printed
    numbers = pd.read_csv(tmp_path / "reports" / "tiny-smoke" / "search.csv", comment="#")
    assert len(numbers) == len(tried)


def test_a_configuration_counts_once_and_a_small_space_ends_early(tmp_path, capfd, monkeypatch):
    stand_in(monkeypatch, Lab)
    where = ["--results", str(tmp_path)]
    space = {"optim.weight_decay": Choice((0.0, 0.1)), "model.d_head": Choice((16, 32))}
    assert main(make_search(9, {"one": BASE}, space), [*QUIET, *where]) == 0
    assert "one: 4 configurations, as its space seems to hold no others" in capfd.readouterr().out
    kept = read_winners(tmp_path)
    assert kept["one"]["num_configurations"] == len(kept["one"]["tried"]) == 4
    # Older files have repeated ones, some of them trained for fewer steps.
    winner, *_ = (row for row in kept["one"]["tried"] if row["num_steps"] == 90)
    kept["one"]["tried"] += [winner, winner | {"num_steps": 10}]
    (tmp_path / "searches" / "tiny-smoke.json").write_text(json.dumps(kept))
    tried = load_search(tmp_path, "tiny", "smoke")
    assert (len(tried), tried["is_best"].sum()) == (4, 1)
    assert sorted(tried["num_steps"])[-1] == 90


def test_winners_of_an_earlier_search_are_told_as_such(tmp_path, capfd, monkeypatch):
    def show_newer() -> str:
        assert show(["search", "tiny", "--results", str(tmp_path)]) == 0
        found = re.search(r"\d+ trials? of the newest view", capfd.readouterr().out)
        return found[0] if found else ""

    def cut(sweeps, options):
        plan = make_plan(sweeps[0], options.scale, None, store := Store(options.results))
        store.write_view(launch.view_rows(plan), "searches")
        raise KeyboardInterrupt

    words = [*QUIET, "--results", str(tmp_path)]
    stand_in(monkeypatch, Lab)
    assert (main(make_search(9), words), show_newer()) == (0, "")
    assert main(make_search(4), words) == 0
    replaced = "two: best of 4 configurations; the one before, of 9"
    assert replaced in capfd.readouterr().out
    assert show_newer() == ""
    monkeypatch.setattr(launch, "run_sweeps", cut)
    other = {"optim.learning_rate": Range(2e-3, 1e-1)}
    assert main(make_search(9, space=other), words) == 130
    assert show_newer() == "4 trials of the newest view"


def test_divergence_is_the_worst_score_and_counts(tmp_path):
    class Wild(Lab):
        def write(self, config):
            if config.optim.learning_rate > 2e-3:
                self.store.write(config, "diverged", {"error": "loss is nan"})
            else:
                super().write(config)

    best, failed = find(make_search(8), tmp_path, Wild(tmp_path))
    assert not failed
    assert best["one"]["num_configurations"] == best["one"]["num_per_rung"][0] == 8
    assert best["one"]["optim.learning_rate"] <= 2e-3
    diverged = [row for row in best["one"]["tried"] if row["optim.learning_rate"] > 2e-3]
    assert diverged
    assert all(row["near_score"] == 2.0 for row in diverged)


def test_an_error_is_named_and_tried_again_by_the_next_launch(tmp_path, capfd, monkeypatch):
    class Broken(Lab):
        def write(self, config):
            if config.model.num_layers == 2 and config.optim.learning_rate != 1e-3:
                self.store.write(config, "error", {"error": "Traceback\nRuntimeError: planted"})
            else:
                super().write(config)

    words = [*QUIET, "--results", str(tmp_path)]
    stand_in(monkeypatch, Broken)
    assert main(make_search(3), words) == 1
    printed = capfd.readouterr().out
    assert printed.count("failed: two, configuration ") == 2
    assert "RuntimeError: planted" in printed
    assert "tuned less" in printed
    assert read_winners(tmp_path)["two"]["num_failed"] == 2
    assert show(["search", "tiny", "--results", str(tmp_path)]) == 0
    spent = "Spent by each arm: one 270 steps; two 130 steps, 2 configurations failed."
    assert spent in " ".join(capfd.readouterr().out.split())
    stand_in(monkeypatch, Lab)
    assert main(make_search(3), words) == 0
    two = read_winners(tmp_path)["two"]
    assert (two["num_failed"], len(two["tried"])) == (0, 3)


def test_a_drawn_value_that_cannot_work_has_failed_and_the_next_is_drawn(
    tmp_path, capfd, monkeypatch
):
    stand_in(monkeypatch, Lab)
    arms = {"one": override(BASE, {"position.encoding": "rotary"})}
    search = make_search(8, arms, {"model.d_head": Range(8, 32)})
    assert main(search, [*QUIET, "--results", str(tmp_path)]) == 1
    printed = capfd.readouterr()
    assert "(d_head=19): position.encoding=rotary needs an even model.d_head" in printed.out
    assert "--except" not in printed.out + printed.err
    one = read_winners(tmp_path)["one"]
    assert one["num_configurations"] == one["num_failed"] + len(one["tried"]) == 8
    assert {row["model.d_head"] % 2 for row in one["tried"]} == {0}


def test_an_arm_without_a_winner_is_not_passed_over(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(launch, "run_sweeps", lambda *arguments: 1)
    assert main(make_search(2), [*QUIET, "--results", str(tmp_path)]) == 2
    error = capfd.readouterr().err
    assert "no configuration finished its rungs in: one, two" in error
    assert "one, configuration 0 (" in error
    assert not list((tmp_path / "searches").glob("*.json"))


def test_equal_scores_are_decided_by_the_loss(tmp_path):
    best, _ = find(make_search(12), tmp_path, Lab(tmp_path, num_correct=0))
    full = [row for row in best["one"]["tried"] if row["num_steps"] == 90]
    assert {row["near_score"] for row in full} == {2.0}
    rates = [row["optim.learning_rate"] for row in full]
    nearest = min(rates, key=lambda rate: abs(math.log10(rate) - PEAK[1]))
    assert best["one"]["optim.learning_rate"] == pytest.approx(nearest, rel=1e-3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num": 0}, "0 configurations per arm is below 1"),
        ({"rungs": (1 / 3, 1 / 9, 1)}, "must rise"),
        ({"rungs": (1 / 9, 1 / 3)}, "exactly 1"),
        ({"rungs": (0.001, 0.002, 1)}, r"optim.num_steps=90 is too short for rungs \[1, 1, 90\]"),
        ({"arms": {}}, "no arms"),
        ({"space": {}}, "space is empty"),
        ({"space": {"optim.num_steps": Range(10, 20)}}, "belongs to the rungs"),
        ({"space": {"eval.near_lengths": Choice(("4", "5"))}}, "cannot be searched"),
        ({"space": {"optim.learning_rate": Range(1e-2, 1e-2)}}, "low=0.01 is not below high=0.01"),
        ({"space": {"optim.weight_decay": Range(0.0, 1.0)}}, "cannot begin at 0"),
        ({"space": {"model.num_layers": Range(1, 2.5)}}, "not a valid int"),
        ({"space": {"task.zero_pad": Range(0, 1)}}, "use a Choice"),
        ({"space": {"optim.beta1": Range(0.5, 1.5)}}, "arm 'one': optim.beta1=1.5 must be below 1"),
        (
            {"arms": {"one": override(BASE, {"eval.near_lengths": ()})}},
            "arm 'one': eval.near_lengths is empty",
        ),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_written(tmp_path, changes, message):
    lab = Lab(tmp_path / "new", stop_after=0)
    with pytest.raises(ValueError, match=message):
        find(make_search(**changes), tmp_path / "new", lab)
    assert not (tmp_path / "new").exists()


def test_near_lengths_that_count_as_test_range_are_refused():
    """With a second length that was not trained, a near length belongs to the test range."""
    fixed = {"task.name": "multiplication", "position.max_position": 60, "eval.test_lengths": ()}
    config = override(BASE, fixed | {"eval.second_lengths": (9,)})
    with pytest.raises(ValueError, match="all belong to the test range"):
        prepare_arms(make_search(arms={"one": config}), "smoke", Budget(configurations=1))


def test_the_plan_runs_nothing(tmp_path, capfd):
    code = main(make_search(7), ["--scale", "smoke", "--plan", "--results", str(tmp_path / "r")])
    assert code == 0
    printed = capfd.readouterr().out
    assert "2 arms x 7 configurations x 3 rungs: at most 1,820 steps; about" in printed
    assert not (tmp_path / "r").exists()
    assert main(make_search(7), ["--plan", "--configurations", "0"]) == 2
    assert "below 1" in capfd.readouterr().err


def real_search() -> Search:
    """Two arms with two rungs of real, short trainings."""
    short = {label: override(config, {"optim.num_steps": 12}) for label, config in ARMS.items()}
    return make_search(3, short, rungs=(1 / 3, 1.0))


def run_real(results: Path) -> int:
    return main(real_search(), [*QUIET, "--results", str(results)])


def test_its_trials_have_a_view_that_is_not_one_of_a_sweep(tmp_path, capsys):
    assert run_real(tmp_path) == 0
    store = Store(tmp_path)
    ids = store.load_view("tiny", "smoke", "searches").column("trial_id").to_pylist()
    assert sorted(ids) == sorted(shard.trial_id for shard in store.shards())
    assert store.views() == {}  # no table, page or report takes them for cells of a sweep
    assert usual_scale((tmp_path, "tiny")) == "smoke"
    capsys.readouterr()
    where = ["--results", str(tmp_path)]
    assert command(["status", *where]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if "tiny" in line)
    assert line.split()[:4] == ["tiny", "smoke", str(len(ids)), str(len(ids))]
    for words in (["trials"], ["status", "--scale", "smoke"]):
        assert command([*words, "tiny", *where]) == 2
        hint = "tiny is a search: python -m analysis search tiny"
        assert capsys.readouterr().err == f"sweeps: {hint}\n"
    assert command(["why", "tiny/one, learning_rate=0.001, weight_decay=0.0, 4 steps", *where]) == 0
    assert "trial " in capsys.readouterr().out
    assert command(["verify", *where]) == 0


def test_a_scale_without_a_budget_is_refused_with_those_that_have_one(tmp_path, capsys):
    search = replace(make_search(), budget={"smoke": Budget(configurations=1)})
    assert main(search, ["--plan", "--results", str(tmp_path)]) == 2
    assert "tiny has no budget at scale laptop; there: --scale smoke\n" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of mlflow's own imports
def test_mlflow_shows_a_search_like_a_sweep(tmp_path, capfd):
    from mlflow.tracking import MlflowClient

    assert run_real(tmp_path) == 0  # what an earlier launch ran is shown too
    assert not (tmp_path / "mlflow.db").exists()
    shown = [flag for flag in QUIET if not flag.startswith("--no-")]
    more = ["--results", str(tmp_path), "--configurations", "4"]
    assert main(real_search(), [*shown, *more]) == 0
    client = MlflowClient(tracking_uri=f"sqlite:///{tmp_path}/mlflow.db")
    experiment = client.get_experiment_by_name("tiny [smoke]").experiment_id
    runs = client.search_runs([experiment])
    (parent,) = (run for run in runs if "mlflow.parentRunId" not in run.data.tags)
    children = {run.data.tags.get("pcore.trial_id"): run for run in runs if run is not parent}
    store = Store(tmp_path)
    assert set(children) == {shard.trial_id for shard in store.shards()}
    assert {run.info.status for run in runs} == {"FINISHED"}
    scores = read_scores(store, children)
    for name, run in children.items():
        assert run.data.metrics["near_score"] == pytest.approx(scores[name].score)
        assert run.info.run_name.startswith(("one, learning_rate=", "two, learning_rate="))
    note = parent.data.tags["mlflow.note.content"]
    assert note.startswith("A claim.")
    assert note.count("| winner |") == 2
    artifacts = {a.path for a in client.list_artifacts(parent.info.run_id, "report")}
    assert "report/search.md" in artifacts
    capfd.readouterr()
    assert command(["mirror", "tiny", "--results", str(tmp_path)]) == 0  # from the rows alone
    assert f"tiny [smoke]: {len(children)} trials in sqlite:" in capfd.readouterr().out
    again = client.search_runs([experiment])
    assert {run.data.tags.get("pcore.trial_id") for run in again} == {None, *children}


def test_the_search_expands_at_every_scale():
    search = packing_search.SEARCH
    for scale in ("smoke", "laptop", "paper"):
        found = prepare_arms(search, scale, search.budget[scale])
        assert len(found) == 14
        assert {config.position.encoding for config in found.values()} >= {"none", "rotary"}
        for config in found.values():
            near = set(config.eval.near_lengths)
            assert near
            assert not near & set(addition(scale).eval.test_lengths)
    assert len(search.claim) > 100


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"arms": lambda scale: {}["b"]}, "tiny at scale smoke: KeyError: 'b' (test_search.py"),
        ({"arms": lambda scale: [BASE]}, "tiny: arms gives ["),
        ({"arms": lambda scale: {"a": 1}}, "tiny: arm 'a' is no TrialConfig but 1"),
        ({"name": "../evil"}, "name='../evil' of a sweep is not"),
        *(
            ({"space": {"position.moduli": Choice(values)}}, "write it as a text")
            for values in (((7, 8), (9, 11)), ([7, 8], [9, 11]))
        ),
        ({"space": {"optim.learning_rate": Choice((0.001, "1e-3"))}}, "needs different values"),
    ],
)
def test_a_script_of_wrong_types_is_refused_in_a_sentence(tmp_path, capsys, changes, sentence):
    search = replace(make_search(), **changes)
    for flags in (["--plan"], []):
        assert main(search, [*QUIET, *flags, "--results", str(tmp_path)]) == 2
        error = capsys.readouterr().err
        assert sentence in error
        assert error.count("\n") == 1

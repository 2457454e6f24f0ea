"""Training: exact resume, isolated randomness, and the arithmetic of the loop."""

import io
import itertools

import pytest
import torch

from pcore.checkpoint import load_model, pack_state, save_model, unpack_state
from pcore.config import override
from pcore.data import TrainingData
from pcore.encodings import ENCODINGS
from pcore.evaluation import judge, make_held_out_set
from pcore.model import make_model
from pcore.settings import OptimConfig
from pcore.training import Candidate, Run, learning_rate, train, weight_decay
from tests.support.same import ALL_POLICIES, assert_same, facts

# Resume ---------------------------------------------------------------------------------------


def test_going_on_from_every_report_equals_the_uninterrupted_run(tiny_config):
    """Of other streams of examples: test_data.py."""
    changes = {"data.num_examples": 40}  # 12 steps of 16 end several passes inside a batch
    config = override(tiny_config, ALL_POLICIES | changes)
    whole, states = [], []
    for report in train(config, report_every=5):
        whole.append(facts(report))
        states.append(report.state())
    num_results = [len(f["results"]) for f in whole]
    assert [f["step"] for f in whole] == [5, 10, *[12] * (1 + 15 + 1)]
    assert num_results == [0, 0, 0, *range(1, 16), 15]
    for index, state in enumerate(states[:-1]):  # by induction all that follows
        resumed = next(train(config, state=state, report_every=5))
        assert_same(facts(resumed), whole[index + 1])
        assert_same(resumed.state(), states[index + 1])
    assert_same([facts(r) for r in train(config, state=states[-1])], whole[-1:])


def test_a_state_of_another_trial_or_a_damaged_file_is_no_state(tiny_config):
    whole = pack_state(tiny_config, next(train(tiny_config, report_every=5)).state())
    assert unpack_state(whole, tiny_config) is not None
    assert unpack_state(whole, override(tiny_config, {"seed": 1})) is None
    written_by_others = io.BytesIO()
    torch.save(torch.load(io.BytesIO(whole)), written_by_others)
    flipped = whole[:-50] + bytes([whole[-50] ^ 1]) + whole[-49:]
    for data in (b"", whole[:-100], whole[100:], flipped, written_by_others.getvalue()):
        assert unpack_state(data, tiny_config) is None


# Randomness -----------------------------------------------------------------------------------


def batches(config, count=4):
    data = TrainingData(config)
    return [tuple(data.next_batch()) for _ in range(count)]


@pytest.mark.parametrize(
    ("changes", "own"),
    [
        *(({"position.encoding": name} | ENCODINGS[name].needs, "encoding.") for name in ENCODINGS),
        ({"model.attention_sink": "learned"}, "attention.sink"),
        ({"model.attention": "learned-scale"}, "attention.weigh."),
        ({"model.query_init": "zero"}, "attention.q"),
        ({"data_seed": 7}, "nothing"),
    ],
    ids=str,
)
def test_all_arms_start_from_the_same_backbone(tiny_config, changes, own):
    config = override(tiny_config, {"model.d_model": 32})  # residues need as many
    plain, arm = (make_model(override(config, c)).state_dict() for c in ({}, changes))
    backbone = {name: weight for name, weight in arm.items() if own not in name}
    assert_same(backbone, {name: plain[name] for name in backbone})
    assert not any(weight.any() for name, weight in arm.items() if own == "attention.q" in name)
    other = make_model(override(config, changes | {"seed": 7})).state_dict()
    assert not torch.equal(other["embedding"], arm["embedding"])


@pytest.mark.parametrize("num_examples", [None, 40])
def test_all_arms_see_the_same_examples_in_the_same_order(tiny_config, num_examples):
    config = override(tiny_config, {"data.num_examples": num_examples})
    expected = [b[0] for b in batches(config)]
    for changes in (
        {"position.encoding": "none"},
        {"position.ids": "sequential"},
        {"position.start": "wrapped"},
        {"model.num_layers": 1, "seed": 3},
    ):
        assert_same([b[0] for b in batches(override(config, changes))], expected)
    assert not torch.equal(batches(override(config, {"data_seed": 7}))[0][0], expected[0])


# The loop -------------------------------------------------------------------------------------


def test_the_learning_rate_rises_linearly_and_falls_by_a_cosine():
    optim = OptimConfig(learning_rate=2.0, num_steps=100, warmup_fraction=0.1)
    assert [learning_rate(optim, s) for s in (0, 4, 9)] == pytest.approx([0.2, 1.0, 2.0])
    assert learning_rate(optim, 10) == pytest.approx(2.0)
    assert learning_rate(optim, 55) == pytest.approx(2.0 * (0.1 + 0.9 * 0.5))
    assert learning_rate(optim, 100) == pytest.approx(0.2)
    rates = [learning_rate(optim, s) for s in range(10, 100)]
    assert rates == sorted(rates, reverse=True)


@pytest.mark.parametrize("fraction", [0.0, 1.0])
def test_a_schedule_without_warmup_or_decay_is_finite(fraction):
    optim = OptimConfig(num_steps=3, warmup_fraction=fraction)
    rates = [learning_rate(optim, s) for s in range(3)]
    assert all(0 < r <= optim.learning_rate for r in rates)


def test_weight_decay_is_constant_or_falls_by_a_cosine():
    constant = OptimConfig(weight_decay=0.3, num_steps=100)
    assert {weight_decay(constant, s) for s in range(100)} == {0.3}
    falling = OptimConfig(weight_decay=0.3, num_steps=100, final_decay_fraction=0.1)
    decays = [weight_decay(falling, s) for s in (0, 50, 100)]
    assert decays == pytest.approx([0.3, 0.3 * 0.55, 0.03])


# Reports and checkpoints ----------------------------------------------------------------------


def test_reports_of_another_rhythm_are_means_of_the_same_training(tiny_config):
    each, means = (list(train(tiny_config, report_every=steps)) for steps in (1, 5))
    assert_same(means[-1].checkpoints, each[-1].checkpoints)
    losses = [r.loss for r in each if not r.results]
    chunks = [losses[:5], losses[5:10], losses[10:]]
    expected = [sum(c) / len(c) for c in chunks]
    assert [r.loss for r in means if not r.results] == pytest.approx(expected, rel=1e-5)


def test_best_and_oracle_keep_the_least_loss_of_four_checks(tiny_config, monkeypatch):
    seen, offer = {}, Candidate.offer

    def spy(candidate, loss, step, model):
        seen.setdefault(id(candidate), []).append((loss, step))
        offer(candidate, loss, step, model)

    monkeypatch.setattr(Candidate, "offer", spy)
    run = Run(override(tiny_config, ALL_POLICIES | {"optim.learning_rate": 0.1}), "cpu")
    for _ in range(12):
        run.count(run.update(run.data.next_batch(), 0.1)[0])
    assert set(run.candidates) == {"best", "oracle"}
    for candidate in run.candidates.values():
        offers = seen[id(candidate)]
        assert [step for _, step in offers] == [3, 6, 9, 12], "num_checks = 4 of 12 steps"
        assert (candidate.loss, candidate.step) == min(offers)


def test_seconds_are_those_of_training_not_of_whoever_reads_reports(tiny_config, monkeypatch):
    clock = itertools.count()  # a second passes whenever somebody looks
    monkeypatch.setattr("pcore.training.time.perf_counter", lambda: float(next(clock)))
    found = []
    for report in train(tiny_config, report_every=4):
        found.append(report.seconds)
        next(clock)
    assert found[:3] == [1.0, 2.0, 3.0]
    assert set(found[3:]) == {3.0}


def test_best_and_oracle_are_chosen_as_they_are_evaluated(tiny_config, tmp_path):
    """With the attention factor of evaluation, and oracle on the very examples of its length; a
    saved model answers as the trained one.
    """
    changes = {
        **{"task.name": "minesweeper", "data.min_length": 2, "eval.train_lengths": "2"},
        **{"eval.checkpoints": "best,oracle", "eval.attention_factor": 3.0},
        # so that the loss explodes after the first check
        **{"optim.learning_rate": 100, "optim.warmup_fraction": 1},
    }
    config = override(tiny_config, changes)
    *_, before, last = train(config)
    candidates = before.state()["candidates"]
    losses = {name: kept["loss"] for name, kept in candidates.items()}
    longest = max(config.eval.test_lengths)
    (oracle,) = [r.counts for r in last.results if r.key == ("oracle", longest, longest)]
    assert losses["oracle"] == oracle.loss_sum / oracle.num_tokens
    steps = {r.checkpoint: r.checkpoint_step for r in last.results}
    assert steps == {name: kept["step"] for name, kept in candidates.items()}
    assert set(steps.values()) == {3}
    save_model(tmp_path / "m.pt", config, last.checkpoints["best"])
    model, _ = load_model(tmp_path / "m.pt")
    best = judge(model, make_held_out_set(config), config).counts
    assert losses["best"] == best.loss_sum / best.num_tokens

"""Stacked trials: each member is what it would be alone, whatever the others are and do.

"Equal up to rounding" is a relative 1e-5 of losses over 50 steps: the same float32 numbers
(rounding 6e-8) are added in another order, as batches are padded together and not cut by length.
"""

import dataclasses
from collections.abc import Iterator
from contextlib import suppress
from typing import get_args, get_type_hints

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from pcore.config import PositionConfig, TrialConfig, override
from pcore.encodings import ENCODINGS
from pcore.model.transformer import make_model
from pcore.training.stacked import (
    Stack,
    can_stack,
    check_stackable,
    stack_key,
    train_stacked,
)
from pcore.training.train import Diverged, Run, train
from tests.support.same import ALL_POLICIES, assert_same, facts
from tests.support.tiny_config import TINY

pytestmark = pytest.mark.slow  # a minute together
CLOSE = {"rel": 1e-5}
# What members of a stack may differ in.
MEMBERS = [
    {},
    {"seed": 1, "data_seed": 1, "optim.learning_rate": 1e-3, "optim.grad_clip": 0.2},
    {"data_seed": 2, "position.ids": "sequential", "optim.weight_decay": 0.1}
    | {"optim.final_decay_fraction": 0.0},
    {"seed": 3, "position.start": "fixed", "optim.warmup_fraction": 0.5, "task.zero_pad": False},
]


def make_members(base: TrialConfig, **changes) -> list[TrialConfig]:
    room = {"position.max_position": 24}  # sequential IDs need more of it
    return [override(base, {**room, **changes, **member}) for member in MEMBERS]


def run_stack(configs, **options) -> list[list]:
    """All reports of every member; a divergence as what it is."""
    found = [[] for _ in configs]
    for news in train_stacked(configs, **options):
        for i, new in news.items():
            found[i].append(new)
    return found


def assert_close(reports, expected):
    """Reports of a member and of a run that it equals up to rounding."""
    assert [r.step for r in reports] == [r.step for r in expected]
    for a, b in zip(reports, expected, strict=True):
        assert a.loss == pytest.approx(b.loss, **CLOSE)
        assert a.grad_norm == pytest.approx(b.grad_norm, rel=1e-4)
        assert (a.learning_rate, a.num_steps) == (b.learning_rate, b.num_steps)
    assert_same_results(reports[-1], expected[-1])


def assert_same_results(left, right):
    assert len(left.results) == len(right.results) > 0
    for a, b in zip(left.results, right.results, strict=True):
        assert (a.checkpoint, a.length, a.test_set) == (b.checkpoint, b.length, b.test_set)
        assert a.checkpoint_step == b.checkpoint_step
        assert a.counts.num_correct == b.counts.num_correct
        assert a.counts.loss_sum == pytest.approx(b.counts.loss_sum, rel=1e-4)
    assert left.checkpoints.keys() == right.checkpoints.keys()


# A member and its solo run --------------------------------------------------------------------


def test_every_member_follows_its_solo_run_for_50_steps(tiny_config):
    configs = make_members(override(tiny_config, {"optim.num_steps": 50}))
    for reports, config in zip(run_stack(configs, report_every=5), configs, strict=True):
        assert_close(reports, list(train(config, report_every=5)))


@pytest.mark.parametrize(
    "changes",
    [
        {"position.encoding": "none"},
        {"position.encoding": "rotary"},
        {"position.encoding": "alibi"},
        {"position.encoding": "t5"},
        {"position.encoding": "sinusoidal", "model.norm": "layer"},
        {"position.freeze_table": True, "model.norm_placement": "pre"},
        {"model.num_layers": 1, "model.attention_scale": "log-length"},
        {"data.num_examples": 40, "optim.grad_clip": 0.0} | ALL_POLICIES,
    ],
    ids=str,
)
def test_whatever_the_model_a_member_follows_its_solo_run(tiny_config, changes):
    configs = make_members(tiny_config, **changes)
    for reports, config in zip(run_stack(configs, report_every=4), configs, strict=True):
        assert_close(reports, list(train(config, report_every=4)))


@st.composite
def shapes(draw):
    heads, width = draw(st.integers(1, 3)), draw(st.sampled_from([2, 4, 6]))
    return {
        "model.num_layers": draw(st.integers(1, 2)),
        "model.num_heads": heads,
        "model.d_head": width,
        "model.d_model": draw(st.sampled_from([4, 10, 16])),
        "model.d_ff": draw(st.integers(1, 20)),
        "model.norm": draw(st.sampled_from(["rms", "layer"])),
        "model.attention_sink": draw(st.sampled_from(["none", "learned"])),
        "model.norm_placement": draw(st.sampled_from(["both", "pre", "post"])),
        "data.max_length": draw(st.integers(1, 5)),
        "optim.batch_size": draw(st.integers(1, 9)),
        "position.encoding": draw(st.sampled_from(["learned", "none", "rotary", "alibi", "t5"])),
    }


@settings(max_examples=15, deadline=None)
@given(shape=shapes(), num_members=st.integers(1, 4))
def test_gradients_of_the_first_step_are_those_of_solo_runs(shape, num_members):
    base = override(TrialConfig(), TINY | {"optim.grad_clip": 0.0} | shape)
    configs = [override(base, {"seed": i, "data_seed": i}) for i in range(num_members)]
    stack = Stack([Run(config, "cpu") for config in configs])
    losses = stack.backward([run.data.next_batch() for run in stack.runs])
    for i, config in enumerate(configs):
        run = Run(config, "cpu")
        loss, norm = run.update(run.data.next_batch(), 0.0)
        assert float(losses[i]) == pytest.approx(float(loss), **CLOSE)
        for name, parameter in run.model.named_parameters():
            difference = (stack.gradient_of[name][i] - parameter.grad).norm()
            assert float(difference) <= 1e-5 * float(norm)


def test_a_stack_of_one_and_members_of_one_configuration(tiny_config):
    (alone,) = run_stack([tiny_config], report_every=4)
    assert_close(alone, list(train(tiny_config, report_every=4)))
    twins = run_stack([tiny_config, tiny_config], report_every=4)
    assert [r.loss for r in twins[0]] == [r.loss for r in twins[1]]


def test_seconds_are_shares(tiny_config):
    for reports in run_stack(make_members(tiny_config), report_every=4):
        seconds = [r.seconds for r in reports]
        assert 0 < seconds[0] < seconds[1] < seconds[2]


# A member and the others ----------------------------------------------------------------------


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_member_that_diverges_leaves_and_touches_no_other(tiny_config, place):
    """The others are what they are in a stack in which it behaves."""
    configs = make_members(tiny_config)[:3]
    wild = override(configs[place], {"optim.learning_rate": 1e38, "optim.grad_clip": 0.0})
    calm = run_stack(configs, report_every=1)
    configs[place] = wild
    stacked = run_stack(configs, report_every=1)
    *before, end = stacked[place]
    assert isinstance(end, Diverged)
    alone = []
    with pytest.raises(Diverged) as raised:
        alone += train(wild, report_every=1)
    assert str(end) == str(raised.value)
    assert all(not report.finished for report in before)
    for i in {0, 1, 2} - {place}:
        assert_close(stacked[i], calm[i])
        assert sum(not report.results for report in stacked[i]) == 12


def test_nothing_of_a_member_moves_its_companions(tiny_config):
    first, second, third, _ = make_members(tiny_config)
    with_one = run_stack([first, second], report_every=4)
    with_another = run_stack([first, third], report_every=4)
    assert_close(with_one[0], with_another[0])


def test_an_infinite_loss_stays_inside_its_row(tiny_config):
    """After a step of the wild member to infinity, gradients of the others are what they were."""
    runs = [Run(config, "cpu") for config in make_members(tiny_config)[:3]]
    with torch.no_grad():
        for parameter in runs[1].model.parameters():
            parameter.fill_(torch.inf)
    stack = Stack(runs)
    losses, norms = stack.update(stack.rates())
    assert torch.isfinite(losses).tolist() == [True, False, True]
    assert torch.isfinite(norms).tolist() == [True, False, True]
    assert torch.isfinite(stack.flat).all(dim=1).tolist() == [True, False, True]


# States ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_examples", [None, 40])
def test_a_stack_goes_on_exactly_from_its_states(tiny_config, num_examples):
    configs = make_members(tiny_config, **{"data.num_examples": num_examples}, **ALL_POLICIES)
    whole, states = [[] for _ in configs], []
    for news in train_stacked(configs, report_every=5):
        for i, report in news.items():
            whole[i].append(facts(report))
        if len(states) == 0:
            states = [report.state() for report in news.values()]
    resumed = run_stack(configs, states=states, report_every=5)
    for reports, expected in zip(resumed, whole, strict=True):
        assert_same([facts(r) for r in reports], expected[1:])


def test_states_move_between_stacked_and_solo_runs(tiny_config):
    configs = make_members(tiny_config, **{"data.num_examples": 40}, **ALL_POLICIES)
    expected = [list(train(config, report_every=5)) for config in configs]
    stacked = [r.state() for r in next(train_stacked(configs, report_every=5)).values()]
    solo = [next(train(config, report_every=5)).state() for config in configs]
    for a, b in zip(stacked, solo, strict=True):
        assert _structure(a) == _structure(b)
    for i, config in enumerate(configs):
        assert_close(list(train(config, state=stacked[i], report_every=5)), expected[i][1:])
    for reports, alone in zip(
        run_stack(configs, states=solo, report_every=5), expected, strict=True
    ):
        assert_close(reports, alone[1:])


def _structure(value):
    """Types, names, shapes and plain values; floats only as such."""
    if isinstance(value, torch.Tensor):
        own = value.untyped_storage().nbytes() == value.numel() * value.element_size()
        assert own, "a state must not keep the weights of the whole stack alive"
        return (value.shape, value.dtype)
    if isinstance(value, dict):
        return {key: _structure(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_structure(part) for part in value]
    return type(value) if isinstance(value, float) else value


def test_members_at_different_steps_leave_one_after_another(tiny_config):
    first, second, *_ = make_members(tiny_config)
    reports = train(first, report_every=5)
    next(reports)
    late = next(reports).state()
    assert late["step"] == 10
    order, found = [], [[], []]
    for news in train_stacked([first, second], states=[late, None], report_every=5):
        for i, report in news.items():
            found[i].append(report)
            if report.finished or not report.results:
                order.append((i, report.step, report.finished))
    first_leaves = [(0, 12, False), (0, 12, True)]
    assert order == [*first_leaves, (1, 5, False), (1, 10, False), (1, 12, False), (1, 12, True)]
    assert_close(found[0], list(train(first, report_every=5))[2:])
    assert_close(found[1], list(train(second, report_every=5)))


def test_reports_of_evaluation_come_alone_behind_those_of_the_step(tiny_config):
    first, second, *_ = make_members(tiny_config)
    reports = train(first, report_every=6)
    half = next(reports).state()
    news = train_stacked([second, first], states=[None, half], report_every=6)
    assert _who(news) == [[0, 1], [1], [0]]
    assert _who(train_stacked([first, second], report_every=12)) == [[0, 1], [0], [1]]


def _who(all_news):
    """Of whom there is news, repetitions left out."""
    who = [list(news) for news in all_news]
    return [names for names, before in zip(who, [None, *who], strict=False) if names != before]


def test_a_member_that_was_stopped_in_its_evaluation_goes_on_there(tiny_config):
    reports = list(train(tiny_config))
    for stopped in reports[-4:]:
        state = stopped.state()
        found = run_stack([tiny_config, tiny_config], states=[None, state])
        assert found[1][-1].results == reports[-1].results
        assert found[0][-1].finished


# What can be stacked --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 5, "data_seed": 6},
        {"optim.learning_rate": 1.0, "optim.eps": 1e-6, "optim.grad_clip": 0.0},
        {"position.ids": "sequential", "position.start": "fixed"},
        {"position.table_init": "rotation", "model.query_init": "zero"},
        {"task.zero_pad": False, "eval.test_lengths": "5", "data.num_examples": 40},
    ],
    ids=str,
)
def test_trials_that_share_their_shapes(tiny_config, changes):
    check_stackable([tiny_config, override(tiny_config, changes)])
    assert stack_key(tiny_config) == stack_key(override(tiny_config, changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model.d_ff": 64}, "trials 0 and 1 cannot be stacked: model.d_ff is 32 and 64"),
        ({"model.attention_scale": "log-length"}, "model.attention_scale is none and log-length"),
        ({"position.encoding": "rotary"}, "position.encoding is learned and rotary"),
        ({"position.max_position": 30}, r"position.max_position is \(20,\) and \(30,\)"),
        ({"position.freeze_table": True}, "position.freeze_table is False and True"),
        ({"optim.batch_size": 8}, "optim.batch_size is 16 and 8"),
        ({"optim.num_steps": 13}, "optim.num_steps is 12 and 13"),
        ({"task.name": "copy"}, "task.name is addition and copy"),
        ({"position.encoding": "fire"}, "position.encoding=fire cannot be stacked"),
    ],
    ids=str,
)
def test_trials_that_do_not_are_refused_before_compute(tiny_config, changes, message, monkeypatch):
    monkeypatch.setattr("pcore.training.stacked.Run", lambda *a: pytest.fail("compute began"))
    with pytest.raises(ValueError, match=message):
        next(train_stacked([tiny_config, override(tiny_config, changes)]))


def test_max_position_is_free_where_it_is_no_shape(tiny_config):
    base = override(tiny_config, {"position.encoding": "alibi"})
    check_stackable([base, override(base, {"position.max_position": 30})])


def test_what_cannot_work_is_refused(tiny_config):
    with pytest.raises(ValueError, match="no trials to stack"):
        next(train_stacked([]))
    with pytest.raises(ValueError, match="max_position=7 is below 8"):
        next(train_stacked([override(tiny_config, {"position.max_position": 7})]))


def other_positions(position: PositionConfig) -> Iterator[PositionConfig]:
    """The same settings with another value of one field."""
    kinds = get_type_hints(PositionConfig)
    for name in kinds.keys() - {"encoding", "moduli", "max_positions"}:
        value = getattr(position, name)
        others = [o for o in get_args(kinds[name]) if o != value]
        if isinstance(value, (bool, int, float)):
            others = [not value] if isinstance(value, bool) else [value + 1, 2 * value + 1]
        assert others, name
        yield from (dataclasses.replace(position, **{name: other}) for other in others)


def plain_values(config: TrialConfig) -> dict:
    """What an encoding keeps as values of Python: they are those of the first member of a stack."""
    encoding = make_model(config).encoding
    return {name: value for name, value in vars(encoding).items() if not name.startswith("_")}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_what_an_encoding_keeps_of_a_setting_is_in_the_key_or_in_a_tensor(encoding):
    changes = {"model.d_model": 32, "model.d_ff": 8} | ENCODINGS[encoding].needs
    base = override(TrialConfig(), {"position.encoding": encoding} | changes)
    for position in other_positions(base.position) if can_stack(base) else ():
        other = dataclasses.replace(base, position=position)
        if stack_key(base) != stack_key(other):
            continue
        with suppress(ValueError):  # of an encoding that does not take this value
            assert plain_values(other) == plain_values(base), position

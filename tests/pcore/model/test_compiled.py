"""The compiled training step is the plain one: losses, gradients, rows and states.

"Equal up to rounding" is a relative 1e-5 of losses over 50 steps, since batches
are padded to one shape and not cut by length, so the same float32 numbers are added in another
order. Dynamo cannot see through the shape checks of other tests; here they are off.
"""

import warnings

import jaxtyping
import pytest
import torch

from pcore import data
from pcore.config import override
from pcore.data import TrainingData
from pcore.packing import static_shape
from pcore.training import MAX_SHAPES, Run, compile_loss, train
from sweeps import ten_thousand_digits
from sweeps.engine.store.store import Store
from sweeps.engine.trial.attempt import Settings, run_attempt
from tests.support.same import ALL_POLICIES

pytestmark = pytest.mark.slow  # minutes together

CLOSE = {"rel": 1e-5}
MODELS = [
    {"position.encoding": "rotary", "model.norm": "layer", "model.attention_sink": "learned"},
    {"position.encoding": "t5", "task.zero_pad": False},
    {"position.freeze_table": True, "position.start": "wrapped", "position.table_init": "rotation"},
    {"position.ids": "candidates", "position.encoding": "mixture", "position.max_position": 30},
    {"model.attention": "learned-scale", "model.mixer": "gated-linear,attention"},
    {"model.attention": "entmax", "model.attention_sink": "learned"},
    {"model.attention": "stick-breaking", "model.num_loops": 2, "model.input_injection": True},
    {"model.attention": "contextual", "position.encoding": "none"},
]


@pytest.fixture(autouse=True)
def fresh_compiler(monkeypatch):
    """No shape checks inside of graphs, and nothing compiled by an earlier test."""
    monkeypatch.setattr("pcore.training.BACKEND", "eager")
    jaxtyping.config.update("jaxtyping_disable", True)
    torch.compiler.reset()
    compile_loss.cache_clear()
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def counter(monkeypatch):
    """Counts what is compiled."""
    from torch._dynamo.testing import CompileCounter  # seconds, at every start of a worker

    counting = CompileCounter()
    monkeypatch.setattr("pcore.training.BACKEND", counting)
    return counting


def assert_close(reports, expected):
    assert [r.step for r in reports] == [r.step for r in expected]
    for a, b in zip(reports, expected, strict=True):
        assert (a.compiled, b.compiled) == (True, False)
        assert a.loss == pytest.approx(b.loss, **CLOSE)
        assert a.grad_norm == pytest.approx(b.grad_norm, rel=1e-4)
    assert len(reports[-1].results) == len(expected[-1].results) > 0
    for a, b in zip(reports[-1].results, expected[-1].results, strict=True):
        assert (a.key, a.test_set, a.checkpoint_step) == (b.key, b.test_set, b.checkpoint_step)
        assert a.counts.num_correct == b.counts.num_correct
        assert a.counts.loss_sum == pytest.approx(b.counts.loss_sum, rel=1e-4)


# A compiled and a plain run -------------------------------------------------------------------


def test_packed_rows_follow_the_plain_run_with_one_graph_for_each_shape(counter):
    """The recipe of paper scale, on small numbers and a small model."""
    small = {
        "model.num_heads": 2,
        "model.d_model": 32,
        "model.d_head": 8,
        "model.d_ff": 16,
        "position.moduli": (7, 8, 9),
        "position.max_position": 504,
        "data.max_length": 3,
        "optim.batch_size": 100,
        "optim.num_steps": 50,
        "eval.test_lengths": (4,),
        "eval.num_examples": 20,
    }
    config = override(ten_thousand_digits.cells("paper")[0].config, small)
    examples = TrainingData(config, static=True)
    batches = [examples.next_batch() for _ in range(50)]
    shapes = {batch.ids.shape + batch.places.shape for batch in batches}
    assert {shape[0] for shape in shapes} == {100 // k for k in config.data.problems_per_row}
    reports = list(train(config, report_every=5, compile=True))
    assert_close(reports, list(train(config, report_every=5)))
    assert counter.frame_count == len(shapes) <= MAX_SHAPES


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # torch's own, on import
def test_a_compiled_run_follows_the_plain_one_for_50_steps(tiny_config, monkeypatch):
    monkeypatch.setattr("pcore.training.BACKEND", "inductor")
    config = override(tiny_config, {"optim.num_steps": 50} | ALL_POLICIES)
    reports = list(train(config, report_every=5, compile=True))
    assert_close(reports, list(train(config, report_every=5)))


@pytest.mark.parametrize("changes", MODELS, ids=str)
def test_whatever_the_model_it_is_one_graph_with_the_same_gradients(tiny_config, changes, counter):
    config = override(tiny_config, {"optim.grad_clip": 0.0} | changes)
    fast, plain = Run(config, "cpu", compile=True), Run(config, "cpu")
    with warnings.catch_warnings(action="error"):
        loss, norm = fast.update(fast.data.next_batch(), 0.0)
    expected, _ = plain.update(plain.data.next_batch(), 0.0)
    assert counter.frame_count == 1
    assert float(loss) == pytest.approx(float(expected), **CLOSE)
    for (name, a), (other, b) in zip(
        fast.model.named_parameters(), plain.model.named_parameters(), strict=True
    ):
        assert name == other
        if b.requires_grad:
            assert float((a.grad - b.grad).norm()) <= 1e-5 * float(norm)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # asked by the compiler
def test_a_model_that_looks_at_values_is_compiled_in_pieces(tiny_config):
    config = override(tiny_config, {"position.encoding": "fire", "position.ids": "sequential"})
    fast, plain = Run(config, "cpu", compile=True), Run(config, "cpu")
    loss, _ = fast.update(fast.data.next_batch(), 1e-3)
    expected, _ = plain.update(plain.data.next_batch(), 1e-3)
    assert float(loss) == pytest.approx(float(expected), **CLOSE)


def test_all_batches_of_all_seeds_share_one_compilation(tiny_config, counter):
    """Though plain batches differ in width."""
    changes = {"data.num_examples": 40, "task.zero_pad": False, "optim.batch_size": 4}
    config = override(tiny_config, changes)
    plain = TrainingData(config)
    assert len({plain.next_batch().tokens.shape for _ in range(12)}) > 1
    for seed in range(3):
        list(train(override(config, {"seed": seed, "data_seed": seed}), compile=True))
    assert counter.frame_count == 1


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_on_a_gpu_it_follows_the_plain_run_in_float32(tiny_config, monkeypatch):
    monkeypatch.setattr("pcore.training.BACKEND", "inductor")
    config = override(tiny_config, {"optim.num_steps": 50})
    runs = [Run(config, "cuda", wanted, torch.float32) for wanted in (True, False)]
    for _ in range(50):
        fast, plain = (float(run.update(run.data.next_batch(), 1e-3)[0]) for run in runs)
        assert fast == pytest.approx(plain, rel=1e-4)


# States ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [True, False])
def test_states_move_between_compiled_and_plain_runs(tiny_config, first):
    config = override(tiny_config, ALL_POLICIES | {"data.num_examples": 40})
    expected = list(train(config, report_every=5))
    state = next(train(config, report_every=5, compile=first)).state()

    resumed = list(train(config, state=state, report_every=5, compile=not first))
    for a, b in zip(resumed, expected[1:], strict=True):
        assert a.loss == pytest.approx(b.loss, **CLOSE)


# Batches --------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", range(1, 12))
def test_padded_targets_never_fill_a_whole_row(tiny_config, length):
    """A model takes as many places as tokens for `everywhere`."""
    config = override(tiny_config, {"data.max_length": length, "position.max_position": 30})
    num_tokens = config.task.num_tokens(length)
    for extra in range(0, 40, 3):
        width, num_targets = static_shape(config, num_tokens + extra, num_tokens + extra - 2)
        assert num_tokens + extra - 2 <= num_targets < width
        assert width % 8 == 0


def test_a_fixed_list_is_read_in_the_same_order_in_blocks(tiny_config, monkeypatch):
    config = override(tiny_config, {"data.num_examples": 40})
    single = TrainingData(config, static=True)
    expected = [single.next_batch() for _ in range(11)]
    monkeypatch.setitem(data.BLOCK, "cpu", 64)
    blocks = TrainingData(config, static=True)
    for batch in expected:
        found = blocks.next_batch()
        assert torch.equal(found.tokens, batch.tokens)
        assert torch.equal(found.targets, batch.targets)


# Engine ---------------------------------------------------------------------------------------


def test_rows_say_what_was_compiled_and_equal_plain_ones(tiny_config, tmp_path):
    rows, counts = {}, {}
    for how in ("on", "off", "auto"):
        store = Store(tmp_path / how)
        settings = Settings(results=store.root, compile=how)
        assert run_attempt(tiny_config, settings).status == "ok"
        rows[how] = store.load(record="trial").column("compiled").to_pylist()
        keys = ["trial_id", "checkpoint", "length", "test_set", "num_examples", "num_correct"]
        counts[how] = store.load(record="evaluation").select(keys).sort_by("trial_id").to_pylist()
    assert rows == {"on": [True], "off": [False], "auto": [False]}
    assert counts["on"] == counts["off"] == counts["auto"]

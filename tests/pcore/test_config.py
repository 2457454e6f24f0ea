"""The flat dictionary and the identity of a trial."""

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcore import config as module
from pcore.config import TrialConfig, flatten, override, trial_id, unflatten, without_seeds
from pcore.tasks import TASKS
from pcore.training import Diverged, train
from pcore.validation import validate

POSITIVE = st.floats(1e-8, 1e3)
LENGTHS = st.lists(st.integers(1, 300), unique=True, max_size=6)
CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "model.num_layers": st.integers(1, 12),
        "model.norm": st.sampled_from(["rms", "layer"]),
        "position.encoding": st.sampled_from(["none", "learned", "rotary", "mine.own:Thing"]),
        "position.freeze_table": st.booleans(),
        "optim.learning_rate": POSITIVE,
        "optim.weight_decay": POSITIVE,
        "data.num_examples": st.none() | st.integers(1, 10**7),
        "eval.test_lengths": LENGTHS.map(tuple),
        "eval.checkpoints": st.permutations(["last", "best", "oracle"]).map(tuple),
        "task.zero_pad": st.booleans(),
        "task.num_operands": st.integers(2, 9),
        "seed": st.integers(0, 2**31) | st.just(2**62 + 1),  # as a float it would be rounded
        "data_seed": st.integers(0, 2**31),
    },
)


@given(CHANGES)
@settings(max_examples=60, deadline=None)
def test_a_flat_dictionary_reads_back_as_the_trial(changes):
    config = override(TrialConfig(), changes)
    flat = flatten(config)
    assert unflatten(flat, trust_code=True) == config
    text = {name: str(value) for name, value in flat.items()}
    assert unflatten(text, trust_code=True) == config, "as text"
    assert unflatten(json.loads(json.dumps(flat)), trust_code=True) == config, "as JSON"


@pytest.mark.parametrize("name", ["nowhere.yet:Thing", ".os:abort", "nowhere:a.b", ":x", "é:x"])
@pytest.mark.parametrize("field", ["task.name", "position.encoding", "model.attention"])
def test_own_code_in_data_is_refused_before_it_is_looked_for(field, name):
    kind = field.removesuffix(".name")
    with pytest.raises(ValueError, match=f"rows names own code, {kind} '{name}'"):
        unflatten({field: name}, file="rows")


KNOWN = "pcore.mixing:GatedLinear"


@pytest.mark.parametrize(
    "mixers",
    [
        "attention, evil:Evil",
        (KNOWN, "evil:Evil"),
        [f"{KNOWN},evil:Evil"],
    ],
    ids=str,
)
def test_no_form_of_a_list_of_mixers_imports_what_data_names(mixers, tmp_path, monkeypatch):
    (tmp_path / "evil.py").write_text("open('imported', 'w')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=r"names own code|has no"):
        trial_id(unflatten({"model.mixer": mixers}))
    assert not (tmp_path / "imported").exists()


@pytest.mark.parametrize(
    ("text", "lengths"),
    [
        ("1-3,10, 20-30:10", (1, 2, 3, 10, 20, 30)),
        ("", ()),
        (7, (7,)),
        (range(2, 5), (2, 3, 4)),
        ([1.0, 2], (1, 2)),
    ],
)
def test_lengths_may_be_written_in_several_ways(text, lengths):
    assert unflatten({"eval.test_lengths": text}).eval.test_lengths == lengths


def test_equal_values_of_different_types_are_one_trial():
    ids = {
        trial_id(unflatten({"optim.learning_rate": rate, "model.num_layers": layers}))
        for rate in (1, 1.0, "1", "1.0", "1e0")
        for layers in (2, 2.0, "2", "2.0")
    }
    assert len(ids) == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model.num_layers", 1.5),
        ("model.num_layers", True),
        ("optim.learning_rate", True),
        ("position.freeze_table", "maybe"),
        ("model.norm", "batch"),
        ("eval.test_lengths", "1-5:0"),
        ("position.encoding", 3),
        ("model.d_model", None),
        ("model.d_model", "inf"),
    ],
)
def test_a_value_of_the_wrong_kind_is_an_error_that_names_the_field(name, value):
    with pytest.raises(ValueError, match=name):
        unflatten({name: value})


def test_changing_the_task_starts_from_its_defaults():
    config = override(TrialConfig(), {"task.zero_pad": False, "seed": 3})
    other = override(config, {"task.name": "copy"})
    assert other == override(TrialConfig(), {"task.name": "copy", "seed": 3})
    assert override(config, {"task.name": "addition"}) == config


def test_a_cell_is_a_trial_without_its_seeds():
    config = unflatten({"seed": 4, "data_seed": 2, "model.num_layers": 3})
    assert without_seeds(config) == unflatten({"model.num_layers": 3})


def test_a_later_field_with_its_old_meaning_hashes_as_before(monkeypatch):
    before = TrialConfig()

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Later(module.ModelConfig):
        dropout: float = field(default=0.0, metadata={"absent": 0.0})

    monkeypatch.setitem(module.GROUPS, "model", Later)
    monkeypatch.setattr(module, "known_fields", module.known_fields.__wrapped__)
    after = dataclasses.replace(before, model=Later())
    assert "model.dropout" in flatten(after)
    assert trial_id(after) == trial_id(before)
    assert trial_id(override(after, {"model.dropout": 0.1})) != trial_id(before)


def test_contextual_attention_over_weights_that_are_not_finite_diverges(tiny_config):
    changes = {"model.attention": "contextual", "optim.learning_rate": 1000, "optim.grad_clip": 0}
    with pytest.raises(Diverged):
        list(train(override(tiny_config, changes | {"optim.num_steps": 60}), report_every=1))


@dataclass(frozen=True, kw_only=True)
class InBase(TASKS["copy"]):
    base: Literal[7, 10] = 10


def test_choices_may_be_numbers(tiny_config):
    config = dataclasses.replace(tiny_config, task=InBase())
    assert override(config, {"task.base": "7"}).task == InBase(base=7)
    with pytest.raises(ValueError, match=r"task\.base='8' is not one of: 7, 10"):
        override(config, {"task.base": "8"})


@pytest.mark.parametrize(
    "changes",
    [
        {"position.start": "wrapped", "position.max_start": 5},
        {"position.test_policy": "random", "position.test_start": 2},
    ],
)
def test_a_start_that_nothing_reads_is_refused(tiny_config, changes):
    with pytest.raises(ValueError, match="has no meaning with position"):
        validate(override(tiny_config, changes))

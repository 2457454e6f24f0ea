"""Candidate couplings: the designed ones are among them, none knows what is not yet written."""

import pytest
import torch

from pcore.checkpoint import save_model
from pcore.cli import main
from pcore.config import TrialConfig, make_generator, override
from pcore.conformance.tasks import is_possible
from pcore.encodings import Learned, Mixture
from pcore.encodings import position_ids as positions
from pcore.model import make_model
from pcore.settings import PositionConfig
from pcore.tasks.addition import Addition
from pcore.tasks.base import NO_ID, Batch
from pcore.tasks.candidates import CANDIDATES, candidate_ids
from pcore.tasks.commands import Commands
from pcore.tasks.multiplication import Multiplication
from pcore.tasks.strings import Copy, Parity, Reverse
from tests.support.task_oracles import VARIANTS, make_rng

DESIGNED = [
    (Addition(), "backward-up"),
    (Addition(zero_pad=False), "backward-up"),
    (Addition(zero_pad=False, reverse_query=True), "forward-up"),
    (Multiplication(second_length=2), "backward-up"),
    (Copy(), "forward-up"),
    (Reverse(), "forward-down"),
    (Parity(scratchpad=True), "forward-up"),
]
ALL = {"position.ids": "candidates", "position.encoding": "mixture", "position.max_position": 40}


@pytest.mark.parametrize(("task", "name"), DESIGNED, ids=str)
def test_the_designed_coupling_is_a_candidate_up_to_a_constant(task, name):
    batch = task.sample_mixture(300, 1, 9, make_rng())
    found = candidate_ids(batch, task, [name])
    none = batch.relative_ids == NO_ID
    assert torch.equal(found == NO_ID, none)
    assert len((found - batch.relative_ids)[~none].unique()) == 1


@pytest.mark.parametrize(
    ("task", "query", "name", "ids"),
    [
        # $ 9 5 + 7 = 2 0 1 $: segments of their own length
        (Addition(zero_pad=False), "95+7", "backward-down", [2, 1, 0, 1, 3, 2, 1, 0]),
        # $ 7 * 7 9 = 3 5 5 $: a count that stops at zero
        (Multiplication(), "7*79", "forward-down", [1, 0, 1, 2, 3, 2, 1, 0]),
        # words are content, signs are not
        (Commands(), "jump twice after walk left", "forward-up", [1, 2, 3, 4, 5, 0, 1, 2, 3, 4]),
    ],
    ids=str,
)
def test_worked_examples(task, query, name, ids):
    assert candidate_ids(task.encode(query), task, [name])[0, :, 0].tolist() == [-1, *ids, -1]


@pytest.mark.parametrize("task", VARIANTS.values(), ids=VARIANTS.keys())
def test_no_id_depends_on_what_is_not_yet_written(task):
    length = next(n for n in range(3, 30) if is_possible(task, n))
    batch = task.at_test().sample_length(20, length, make_rng())
    whole = candidate_ids(batch, task, CANDIDATES)
    other = torch.randint(1, len(task.vocab), batch.tokens.shape, generator=make_rng(1))
    rewritten = torch.where(batch.response_mask & (batch.tokens != 0), other, batch.tokens)
    assert not torch.equal(rewritten, batch.tokens)
    assert torch.equal(candidate_ids(batch._replace(tokens=rewritten), task, CANDIDATES), whole)
    first = int(batch.response_mask.int().argmax(dim=1).max())
    for end in range(first + 1, batch.tokens.shape[1]):  # its last token counts as EOS
        prefix = Batch(*(part[:, :end] for part in batch))
        assert torch.equal(
            candidate_ids(prefix, task, CANDIDATES)[:, : end - 1], whole[:, : end - 1]
        )


@pytest.mark.parametrize("task", VARIANTS.values(), ids=VARIANTS.keys())
def test_no_candidate_exceeds_its_stated_limit_and_all_reach_it_at_full_length(task):
    for length in [n for n in range(1, 12) if is_possible(task, n)][:3]:
        batch = task.sample_length(64, length, make_rng())
        limits = positions.max_relative_ids(task, "candidates", length)
        largest = candidate_ids(batch, task, CANDIDATES).amax(dim=(0, 1)).tolist()
        assert all(a <= b for a, b in zip(largest, limits, strict=True))
        full = positions.max_relative_ids(task, "sequential", length)
        if batch.tokens.shape[1] == full[0] + 3:
            assert tuple(largest) == limits


def test_one_candidate_is_its_level_alone():
    task = Addition()
    batch = task.sample_mixture(50, 1, 9, make_rng())
    every = positions.select_relative_ids(batch, PositionConfig(ids="candidates"), task)
    for level, name in enumerate(CANDIDATES):
        position = PositionConfig(ids="candidates", candidate=name)
        one = positions.select_relative_ids(batch, position, task)
        assert torch.equal(one, every[:, :, level : level + 1])
        assert positions.level_names(task, position) == (name,)
    plain = positions.select_relative_ids(batch, PositionConfig(ids="sequential"), task)
    assert torch.equal(plain, every[:, :, -1:])


# The mixture --------------------------------------------------------------------------------------


def build(cls: type[Learned], num_levels: int, **options) -> Learned:
    position = PositionConfig(encoding="mixture", max_position=30, **options)
    return cls(position, TrialConfig().model, num_levels, make_generator("test", "mixture"))


@pytest.mark.parametrize("level", range(5))
@torch.no_grad()
def test_a_gate_that_has_chosen_is_the_learned_encoding_of_that_level(level):
    mixture, learned = build(Mixture, 5), build(Learned, 1)
    ids = torch.randint(0, 31, (4, 9, 5), generator=make_rng())
    assert not torch.allclose(mixture.embed(ids), learned.embed(ids[:, :, level : level + 1]))
    mixture.gate[level] = 200.0
    assert mixture.weights()[level] == 1
    assert torch.equal(mixture.embed(ids), learned.embed(ids[:, :, level : level + 1]))


@torch.no_grad()
def test_levels_weigh_the_same_at_first_and_their_sum_has_the_size_of_a_row():
    mixture = build(Mixture, 5, level_tables="separate")
    torch.testing.assert_close(mixture.weights(), torch.full((5,), 0.2))
    ids = torch.randint(0, 31, (40, 9, 5), generator=make_rng())
    rows = mixture.table.pow(2).mean()
    assert mixture.embed(ids).pow(2).mean() == pytest.approx(float(rows), rel=0.05)


def test_explain_prints_the_weight_of_every_candidate(tiny_config, tmp_path, capsys):
    config, file = override(tiny_config, ALL), tmp_path / "m.pt"
    save_model(file, config, make_model(config).state_dict())
    assert main(["explain", str(file), "--length", "4", "--examples", "20"]) == 0
    printed = capsys.readouterr().out
    weights = ", ".join(f"{name} 0.20" for name in CANDIDATES)
    assert f"weights of the levels of IDs: {weights}\n" in printed

"""Free decoding with a cache gives exactly what the teacher-forced pass measures."""

import pytest
import torch

from pcore.config import override
from pcore.decoding import decode_freely
from pcore.evaluation import evaluation_ids, predict_targets
from pcore.model import make_model


@pytest.mark.parametrize(
    "changes",
    [
        {"position.encoding": "rotary", "position.ids": "sequential"},
        {"task.zero_pad": False, "eval.attention_factor": 1.3},
        {"model.attention_scale": "log-length"},
    ],
    ids=str,
)
def test_of_what_is_decoded_the_parallel_pass_predicts_every_token(tiny_config, changes):
    """By induction, one is the truth if and only if the other is, for responses of any length. What
    the parallel pass counts: test_judge.py.
    """
    config, model = override(tiny_config, changes), make_model(override(tiny_config, changes))
    for name, weights in model.named_parameters():  # or it repeats the last token
        if name.endswith(("wo", "attention.o")):
            weights.data *= 20
    seen = set()
    for query in ("9+1", "3+1", "653+49", "8+77", "205+6"):
        batch = config.task.encode(query)
        written = torch.tensor(decode_freely(model, batch, config))
        places = batch.response_mask[0].nonzero().flatten()[: len(written)]
        own = batch._replace(tokens=batch.tokens.index_copy(1, places, written[None]))
        answers = predict_targets(model, own, evaluation_ids(batch, config), config)
        assert torch.equal(answers.predicted[0, : len(written)], written)
        seen |= {*written.tolist()}
    assert len(seen) > 2


def test_nothing_follows_a_stop(tiny_config):
    model = make_model(tiny_config)
    eos = tiny_config.task.vocab.index["$"]
    model.embedding.data[eos] *= 3  # a model that likes to stop
    found = [
        decode_freely(model, tiny_config.task.encode(f"{n}+7"), tiny_config) for n in range(99)
    ]
    assert any(eos in tokens[:3] for tokens in found)
    assert not any(eos in tokens[:-1] for tokens in found)

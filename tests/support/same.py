"""Whether two training runs are the same, bit for bit."""

import dataclasses

import torch

ALL_POLICIES = {"eval.checkpoints": "last,best,oracle"}


def assert_same(left, right):
    """Equal bit for bit, through dictionaries, lists and tensors."""
    assert type(left) is type(right)
    if isinstance(left, torch.Tensor):
        assert torch.equal(left, right)
    elif isinstance(left, dict):
        assert left.keys() == right.keys()
        for key in left:
            assert_same(left[key], right[key])
    elif isinstance(left, (list, tuple)):
        assert len(left) == len(right)
        for a, b in zip(left, right, strict=True):
            assert_same(a, b)
    else:
        assert left == right


def facts(report):
    """Everything of a report but wall time and the state."""
    values = {f.name: getattr(report, f.name) for f in dataclasses.fields(report)}
    del values["seconds"], values["state"]
    return values

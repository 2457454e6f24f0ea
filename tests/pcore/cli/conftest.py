"""The command `pcore` as a fixture, and checkpoints of untrained models."""

import io
import sys

import pytest

from pcore.checkpoint import save_model
from pcore.cli import main
from pcore.config import override
from pcore.model import make_model


@pytest.fixture
def pcore(capsys, monkeypatch):
    """Run a command line: (exit code, standard output, standard error)."""

    def run(*words, stdin=""):
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def save(tmp_path, tiny_config):
    """Write an untrained model of a changed configuration: its file."""

    def run(changes=None, name="m.pt"):
        config = override(tiny_config, changes or {})
        file = tmp_path / name
        save_model(file, config, make_model(config).state_dict())
        return file

    return run

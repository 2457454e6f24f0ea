"""Every sweep script expands at every scale, and its claim says something."""

import importlib
from pathlib import Path

import pytest

from sweeps.engine.spec import SCALES, Sweep

SCRIPTS = sorted(
    path.stem
    for path in (Path(__file__).parents[1] / "sweeps").glob("*.py")
    if path.stem not in ("__init__", "__main__", "baseline")
)


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize("scale", SCALES)
def test_every_sweep_expands_at_every_scale(name, scale):
    sweep: Sweep = importlib.import_module(f"sweeps.{name}").SWEEP
    trials = sweep.trials(scale)
    assert sweep.name == name
    assert len(sweep.claim) > 100
    assert len({trial.id for trial in trials}) == len(trials) >= 2


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_sweep_is_executable_by_itself(name):
    """`ray job submit sweeps/NAME.py` runs the file: it needs a shebang and the run bit."""
    path = Path(__file__).parents[1] / "sweeps" / f"{name}.py"
    assert path.read_text().startswith("#!/usr/bin/env python\n")
    assert path.stat().st_mode & 0o111


def test_paper_scale_is_the_published_setting():
    """Settings table of the paper, row "addition: depth" (1-6 layers, 8 heads, 1024/128/2048)."""
    from sweeps.depth_ablation import SWEEP

    cells = {cell.label: cell.config for cell in SWEEP.cells("paper")}
    for depth in range(1, 7):
        config = cells[f"coupling, {depth} layer{'s' * (depth > 1)}"]
        assert config.model.num_layers == depth
        assert (config.model.num_heads, config.model.d_model) == (8, 1024)
        assert (config.model.d_head, config.model.d_ff) == (128, 2048)
        assert (config.optim.num_steps, config.optim.batch_size) == (50_000, 1000)
        assert config.optim.learning_rate == 3e-5
        assert (config.position.max_position, config.position.start) == (202, "random")
        assert (config.data.num_examples, config.data.max_length) == (1_000_000, 30)
        assert config.model.attention_scale == "none"
        assert max(config.eval.test_lengths) == 200

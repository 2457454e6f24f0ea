"""Every sweep script expands at every scale, and its claim says something."""

import importlib
from pathlib import Path

import pytest

from sweeps.engine.catalogue import find_sweep, sweep_names
from sweeps.engine.spec import SCALES, Sweep

FOLDER = Path(__file__).parents[1] / "sweeps"
SCRIPTS = sorted(
    path.stem
    for path in FOLDER.glob("*.py")
    if path.stem not in ("__init__", "__main__", "baseline")
)
SEARCHES = [name for name in SCRIPTS if "\nSEARCH = " in (FOLDER / f"{name}.py").read_text()]
SWEEPS = [name for name in SCRIPTS if name not in SEARCHES]


def test_the_catalogue_lists_every_sweep_and_names_the_nearest():
    assert sweep_names() == SWEEPS
    assert find_sweep("sweeps/depth_ablation.py").name == "depth_ablation"
    with pytest.raises(
        ValueError, match=r"no sweep 'depth_ablatoin'\. Did you mean 'depth_ablation'"
    ):
        find_sweep("depth_ablatoin")


def test_a_script_of_the_users_own_is_a_sweep_too(tmp_path):
    script = tmp_path / "mine.py"
    script.write_text((FOLDER / "depth_ablation.py").read_text().replace("depth_ablation", "mine"))
    assert find_sweep(str(script)).name == "mine"
    script.write_text("x = 1\n")
    with pytest.raises(ValueError, match="defines no SWEEP"):
        find_sweep(str(script))


@pytest.mark.parametrize("name", SWEEPS)
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

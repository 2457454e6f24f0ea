"""The depth ablation at smoke scale as a user starts it, on this machine or a cluster."""

import json
import os
import sys
from pathlib import Path

from sweeps.engine.store.store import Store

ROOT = Path(__file__).parents[3]
BIN = Path(sys.executable).parent


def environment(results: Path, **more: str) -> dict[str, str]:
    """The environment of a user with an activated virtual environment."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("RAY_", "PCORE_", "MLFLOW_"))}
    path = f"{BIN}{os.pathsep}{kept['PATH']}"
    return kept | {"PATH": path, "PCORE_RESULTS": str(results), **more}


def sweep_command(*flags: str) -> list[str]:
    script = [str(BIN / "python"), "sweeps/depth_ablation.py", "--scale", "smoke"]
    return [*script, "--executor", "ray", *flags]


def check_complete(results: Path, output: str) -> None:
    """Every trial of the smoke scale has exactly one ok shard, and the table was printed."""
    ok = [shard for shard in Store(results).shards() if shard.status == "ok"]
    assert len(ok) == len({shard.trial_id for shard in ok}) == 12
    assert "coupling, 1 layer" in output
    assert (results / "reports" / "depth_ablation-smoke" / "lengths.png").is_file()


def job_environment(results: Path) -> str:
    return json.dumps({"env_vars": {"PCORE_RESULTS": str(results), "PCORE_GIT_COMMIT": "abc"}})

"""One thread, and shapes checked by jaxtyping and beartype where parts of pcore are tested.

All other tests run pcore as users do: checked, a tiny trial takes twice as long.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jaxtyping
import pytest
import torch

import tests.support.typechecking  # noqa: F401  the hook looks it up by attribute
from tests.support.disk import dont_wait
from tests.support.tiny_config import TINY

if TYPE_CHECKING:  # pcore may not be imported before its hook is there
    from pcore.config import TrialConfig

torch.set_num_threads(1)
# A shell that runs tests in the background has them ignore Ctrl-C, and all that they start too.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Before any test module, and with it pcore, is imported."""
    for name in ("same", "services", "sweeps"):  # their failures show both sides too
        pytest.register_assert_rewrite(f"tests.support.{name}")
    if config.getoption("markexpr") != "benchmark":
        os.fsync = dont_wait
        jaxtyping.install_import_hook(modules_with_shapes(), "tests.support.typechecking.typecheck")
        import_with_annotations()


TESTS = Path(__file__).parent
PCORE = TESTS.parent / "pcore"
OF_PCORE = ("diagnosis", "encodings", "evaluation", "model", "tasks", "test_shapes.py")
SHAPES = ("fuzz", "pcore/theory/test_constructed.py", *(f"pcore/{part}" for part in OF_PCORE))


def modules_with_shapes() -> list[str]:
    """The modules of pcore that state shapes. In all others a check of every call costs more than
    what is called, and shows nothing that the type checker does not.
    """
    files = [file for file in PCORE.rglob("*.py") if "jaxtyping" in file.read_text()]
    return [".".join(file.relative_to(PCORE.parent).with_suffix("").parts) for file in files]


@pytest.fixture(autouse=True, scope="module")
def shapes(request: pytest.FixtureRequest) -> Iterator[None]:
    """Checked in the tests of these parts, and by the fuzzers."""
    checked = any(request.path.is_relative_to(TESTS / name) for name in SHAPES)
    jaxtyping.config.update("jaxtyping_disable", not checked)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(autouse=True)
def small_numbers() -> Iterator[None]:
    """No test leaves a process in which the smallest numbers are zeros, as training wants them."""
    yield
    assert sys.float_info.min / 2 > 0


def import_with_annotations() -> None:
    """Import the folders that load torch late as a type checker sees them: the names in their
    annotations exist then, and the hook finds them.
    """
    import typing

    import pcore  # not its own names for type checkers: they are all of pcore

    typing.TYPE_CHECKING = True
    try:
        import pcore.config
        import pcore.tasks  # noqa: F401
    finally:
        typing.TYPE_CHECKING = False


NEEDS_GPU = "needs a GPU"  # the reason of tests that are skipped without one
# Long tests are dealt out one by one, but those that share a server, a network or what they compute
# go together.
TOGETHER = {
    "tests/cluster/test_nodes.py": "machines",
    "tests/cluster/test_slurm.py": "machines",
    "tests/snapshots/test_snapshots.py": "snapshots",
    "tests/sweeps/launch/test_tracking.py": "mlflow",
    "tests/sweeps/store/test_folder.py": "s3",
}


# Takes minutes, so it begins first. Of the others only "machines" start a Ray at the same time:
# beside two more starts none is done within the half minute that Ray gives itself.
LONGEST = "tests/sweeps/faults/test_services.py::test_killed_workers"
LONG = ("cluster", "sweeps", "project", "analysis")  # folders of the tests that take longest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest first, so that no worker begins it when the others have nothing left."""

    def place(item: pytest.Item) -> tuple[bool, bool, int]:
        file = item.path.relative_to(TESTS.parent).as_posix()
        folder = file.split("/")[1]
        in_folder = LONG.index(folder) if folder in LONG else len(LONG)
        return not item.nodeid.startswith(LONGEST), file not in TOGETHER, in_folder

    items.sort(key=place)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """`--dist loadgroup` with the groups of TOGETHER."""
    from xdist.scheduler import LoadScopeScheduling

    assert all((config.rootpath / file).is_file() for file in TOGETHER)

    class Long(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return TOGETHER.get(nodeid.partition("::")[0], nodeid)

    return Long(config, log) if config.getoption("dist") == "loadgroup" else None


def pytest_sessionfinish(session: pytest.Session) -> None:
    """With NO_SKIPS set, as in CI, a test that was skipped is a failure: something is missing.

    A GPU may be missing, as nothing that CI installs brings one, and so may the rights to start
    services or to make networks.
    """
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or not os.environ.get("NO_SKIPS"):
        return
    skipped = [
        report
        for report in reporter.stats.get("skipped", [])
        if NEEDS_GPU not in str(report.longrepr)
        and "services" not in getattr(report, "keywords", ())
    ]
    for report in skipped:
        reporter.write_line(
            f"\nNO_SKIPS is set, but {report.nodeid} was skipped: {report.longrepr}"
        )
    if skipped:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture
def tiny_config() -> TrialConfig:
    """Addition of 1-3 digits with two small layers and 12 steps."""
    from pcore.config import TrialConfig, override

    return override(TrialConfig(), TINY)

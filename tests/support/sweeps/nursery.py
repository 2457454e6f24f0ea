"""Forks the sweep of `faulty` on demand: a process that has imported everything starts another one
at once, where a fresh interpreter needs seconds.

Reads a line of JSON per child from standard input: arguments, environment, file for the output.
Says the child's process number, and writes how it ended to FILE.ended.
"""

import contextlib
import json
import os
import select
import sys
import tempfile
import traceback
from pathlib import Path

import torch

from sweeps.engine.launch.cli import main as launch
from tests.support.disk import dont_wait
from tests.support.sweeps import faulty


def child(order: dict) -> None:
    code = 1
    try:
        out = os.open(order["output"], os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.environ.clear()
        os.environ.update(order["environment"])
        code = faulty.run(order["arguments"])
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def warm_up() -> None:
    """Run the sweep once: what it imports, hashes and measures, every child has from birth."""
    with (
        tempfile.TemporaryDirectory() as results,
        open(os.devnull, "w") as nothing,
        contextlib.redirect_stdout(nothing),
    ):
        flags = ["--scale", "smoke", "--seeds", "1", "--executor", "inline", "--results", results]
        assert launch(faulty.make_sweep(), [*flags, "--no-mlflow", "--no-report"]) == 0


def main() -> None:
    torch.set_num_threads(1)
    os.fsync = dont_wait
    warm_up()
    children: dict[int, str] = {}
    while True:
        if select.select([sys.stdin], [], [], 0.01)[0]:
            if not (line := sys.stdin.readline()):
                return
            order = json.loads(line)
            if not (pid := os.fork()):
                child(order)
            children[pid] = order["output"]
            print(pid, flush=True)
        while children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            file = Path(children.pop(pid) + ".ended")
            file.with_suffix(".tmp").write_text(str(os.waitstatus_to_exitcode(status)))
            file.with_suffix(".tmp").replace(file)


if __name__ == "__main__":
    main()

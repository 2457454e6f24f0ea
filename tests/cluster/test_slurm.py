"""`cluster/slurm.sbatch` under a real Slurm: a controller and two compute nodes, each with its own
address and host name.
"""

import getpass
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from sweeps.engine.store.store import Store
from tests.support.services.machines import Machine, machines, missing
from tests.support.sweeps.processes import ROOT, check_once, environment, wait_until

REASON = missing("slurmctld", "slurmd", "sbatch", "munged")
pytestmark = [
    pytest.mark.services,
    pytest.mark.timeout(900),
    pytest.mark.skipif(REASON is not None, reason=str(REASON)),
]
SCRIPT = ("sweeps/depth_ablation.py", "--scale", "smoke", "--no-mlflow")

# Without systemd and without control groups of its own, so processes are tracked by parentage.
CONFIG = """\
ClusterName=test
SlurmctldHost=login({controller})
SlurmUser={user}
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/builtin
MpiDefault=none
ReturnToService=2
KillWait=10
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Slurm:
    """A running Slurm. login: the machine where jobs are submitted. nodes: the compute nodes."""

    login: Machine
    nodes: list[Machine]
    variables: dict[str, str]

    def run(self, *command: str, **more: str) -> str:
        """What a command prints on the login machine."""
        done = subprocess.run(
            self.login.command(*command),
            cwd=ROOT,
            env=self.variables | more,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    def submit(self, folder: Path, *arguments: str) -> str:
        """Hand cluster/slurm.sbatch over with these arguments; the number of the job."""
        token = folder / "token"
        token.touch(mode=0o600)
        token.write_text("0123456789abcdef" * 4)
        command = ("sbatch", "--parsable", "--cpus-per-task=1", f"--output={folder}/job.out")
        return self.run(
            *command,
            "cluster/slurm.sbatch",
            *arguments,
            PCORE_RESULTS=str(folder / "results"),
            RAY_AUTH_TOKEN_PATH=str(token),
        )

    def state(self, job: str) -> str:
        """Like RUNNING, PENDING, COMPLETED, CANCELLED."""
        shown = self.run("scontrol", "--oneliner", "show", "job", job)
        return next(w for w in shown.split() if w.startswith("JobState=")).partition("=")[2]

    def wait(self, job: str, *states: str, seconds: float = 600) -> None:
        """Until the job is in one of these states."""
        wait_until(lambda: self.state(job) in states, seconds, 1, lambda: self.state(job))


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    folder = tmp_path_factory.mktemp("slurm")
    (folder / "state").mkdir()
    variables = environment(SLURM_CONF=folder / "slurm.conf")
    daemons: list[subprocess.Popen] = []
    with machines(["login", "n1", "n2"]) as (login, *nodes):
        daemons.append(_start_munge(login, folder / "munge"))
        described = [f"NodeName={n.name} NodeAddr={n.address} CPUs=2" for n in nodes]
        text = CONFIG.format(
            controller=login.address,
            user=getpass.getuser(),
            folder=folder,
            nodes="\n".join(described),
        )
        (folder / "slurm.conf").write_text(text)
        (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        daemons.append(_start(login, folder, "slurmctld", "-D", variables=variables))
        for node in nodes:
            daemons.append(
                _start(node, folder, "slurmd", "-D", "-N", node.name, variables=variables)
            )
        running = Slurm(login=login, nodes=nodes, variables=variables)
        _wait_for_nodes(running, folder)
        yield running
    for daemon in daemons:
        daemon.wait(timeout=30)


def _start_munge(machine: Machine, folder: Path) -> subprocess.Popen:
    folder.mkdir(mode=0o711)
    key = folder / "key"
    key.touch(mode=0o400)
    key.write_bytes(os.urandom(1024))
    options = [f"--{name}-file={folder}/{name}" for name in ("key", "pid", "log", "seed")]
    options += ["--foreground", "--force", f"--socket={folder}/socket"]
    daemon = _start(machine, folder, "munged", *options)
    wait_until((folder / "socket").exists, 30, told=(folder / "munged.out").read_text)
    return daemon


def _start(
    machine: Machine, folder: Path, *command: str, variables: dict[str, str] | None = None
) -> subprocess.Popen:
    """Start a daemon in the foreground; it ends together with its machine."""
    with (folder / f"{command[0]}.out").open("ab") as log:
        return subprocess.Popen(
            machine.command(*command),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=variables,
            start_new_session=True,
        )


def _wait_for_nodes(slurm: Slurm, folder: Path) -> None:
    command = slurm.login.command("sinfo", "--noheader", "--format=%D %T")

    def show() -> str:
        done = subprocess.run(command, env=slurm.variables, capture_output=True, text=True)
        return done.stdout.strip()

    def tell() -> str:
        return "\n".join([show(), *(log.read_text() for log in folder.glob("*.log"))])

    wait_until(lambda: show() == "2 idle", 60, 0.5, tell)


def check_no_processes(slurm: Slurm) -> None:
    """On the nodes only slurmd is left."""
    wait_until(lambda: all(len(node.processes()) <= 1 for node in slurm.nodes), 90, 1)


def check_no_folders(job: str) -> None:
    """In /tmp nothing of the job is left."""
    assert not list(Path("/tmp").glob(f"pcore-{job}-*"))


def test_a_job_out_of_time_continues_on_two_nodes_and_leaves_nothing_behind(slurm, tmp_path):
    """The signal that Slurm sends before the time limit: finished trials stay, the same job goes
    back into the queue and runs only the rest.
    """
    job = slurm.submit(tmp_path, *SCRIPT, "--seeds", "4")
    store, out = Store(tmp_path / "results"), tmp_path / "job.out"
    wait_until(lambda: store.shards(), 400, 0.2, out.read_text)
    slurm.run("scancel", "--batch", "--signal=TERM", job)
    slurm.wait(job, "PENDING", seconds=180)
    finished = {shard.trial_id for shard in store.shards() if shard.status == "ok"}
    assert 0 < len(finished) < 24
    check_no_processes(slurm)
    check_no_folders(job)
    slurm.run("scontrol", "update", f"jobid={job}", "StartTime=now")
    slurm.wait(job, "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT")
    output = out.read_text()
    assert slurm.state(job) == "COMPLETED", output
    assert output.count("2 node(s) there") == 2
    assert "on 2 slots" in output
    assert f"24 trials, {len(finished)} finished, {24 - len(finished)} to run" in output
    assert "coupling, 1 layer" in output
    check_once(tmp_path / "results", 24)
    others = [shard.status for shard in store.shards() if shard.status != "ok"]
    assert others in ([], ["lost"], ["lost"] * 2)  # what ran on the two slots when the job was told
    hosts = store.load(record="trial", columns=["host"]).to_pylist()
    assert {row["host"] for row in hosts} <= {"n1", "n2"}  # a quick node may have run them all
    check_no_processes(slurm)
    check_no_folders(job)

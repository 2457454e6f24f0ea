"""The files of `cluster/` against the schemas of those who read them, and against our own rules:
nothing open without authentication.
"""

import copy
import json
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

pytestmark = pytest.mark.slow  # needs what only `make test-slow` installs
ROOT = Path(__file__).parents[2]
CLUSTER = ROOT / "cluster"
BIN = Path(sys.executable).parent
KUBERNETES = ("raycluster.yaml", "rayjob.yaml")
KUBERAY = json.loads((ROOT / "tests/fixtures/kuberay.json").read_text())


def load(name: str) -> Any:
    return yaml.safe_load((CLUSTER / name).read_text())


def load_kubernetes() -> list[dict[str, Any]]:
    texts = [(CLUSTER / name).read_text() for name in KUBERNETES]
    return [document for text in texts for document in yaml.safe_load_all(text)]


def compose() -> dict[str, Any]:
    return load("compose.yaml")


@pytest.mark.parametrize("name", ["aws.yaml", "gcp.yaml"])
def test_a_launcher_starts_a_ray_that_asks_for_the_token(name):
    """Accepted by Ray's own schema, and again once Ray has filled in its defaults for this cloud;
    the dashboard stays on loopback.
    """
    from ray.autoscaler._private.util import prepare_config, validate_config

    schema = Path(sys.modules["ray"].__file__).parent / "autoscaler" / "ray-schema.json"
    config = load(name)
    jsonschema.validate(config, json.loads(schema.read_text()))
    filled = prepare_config(copy.deepcopy(config))
    validate_config(filled)
    commands = " ".join(filled["setup_commands"] + filled["head_start_ray_commands"])
    assert "latest/ray" not in commands, "Ray's default commands install a nightly build"
    assert "/home/ubuntu/.ray/auth_token" in config["file_mounts"]
    for role in ("head", "worker"):
        starts = [c for c in config[f"{role}_start_ray_commands"] if "ray start" in c]
        assert starts
        assert all("RAY_AUTH_MODE=token" in command for command in starts)
    assert "--dashboard-host=127.0.0.1" in " ".join(config["head_start_ray_commands"])
    assert config["available_node_types"]["worker"]["min_workers"] >= 1


@pytest.mark.parametrize(
    "command",
    [
        "check-jsonschema --builtin-schema vendor.compose-spec compose.yaml",
        "shellcheck slurm.sbatch",
        "hadolint --failure-threshold warning Dockerfile",
    ],
)
def test_checkers_of_others_accept(command):
    program, *words = command.split()
    done = subprocess.run([BIN / program, *words], cwd=CLUSTER, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_listens_on_all_interfaces_of_a_container_has_a_guard():
    """Ray its token, MLflow its list of hosts, the store its key and a network without way out."""
    config = compose()
    for service in config["services"].values():
        command = service.get("command", "")
        text = command if isinstance(command, str) else " ".join(command)
        if "0.0.0.0" not in text:
            continue
        if "ray start" in text:
            assert service["environment"]["RAY_AUTH_MODE"] == "token"
            assert service["environment"]["RAY_AUTH_TOKEN_PATH"].startswith("/run/secrets/")
        elif "mlflow server" in text:
            assert "--allowed-hosts" in text
        else:
            assert "AWS_SECRET_ACCESS_KEY" in service["environment"]
            assert "ports" not in service
            assert all(config["networks"][name]["internal"] for name in service["networks"])


def test_every_service_of_compose_is_as_hard_as_the_hardest_and_on_loopback_only():
    for name, service in compose()["services"].items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert any(entry.startswith("/tmp") for entry in service["tmpfs"]), name
        assert service["pids_limit"], name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), name
        assert not {"privileged", "cap_add", "devices", "pid", "network_mode"} & set(service), name
        # Compose ends with an error for a read-only service that has a secret of the environment.
        assert service.get("read_only") or service.get("secrets"), name
        if service["image"] == "pcore":  # the image's own user, see below
            assert "user" not in service, name
        else:
            assert int(service["user"].partition(":")[0]) > 0, name


def test_compose_takes_every_secret_from_the_user():
    config = compose()
    assert all(set(secret) == {"environment"} for secret in config["secrets"].values())
    required = re.findall(r"\$\{(\w+):\?", (CLUSTER / "compose.yaml").read_text())
    given = {secret["environment"] for secret in config["secrets"].values()} | set(required)
    readme = (CLUSTER / "README.md").read_text()
    for name in given:
        assert f"{name}=" in readme, f"README.md does not say how to make {name}"
    assert ".env" in (CLUSTER / ".gitignore").read_text().split()


def pod_templates() -> list[dict[str, Any]]:
    found = []
    for document in load_kubernetes():
        spec = document["spec"].get("rayClusterSpec", document["spec"])
        if "headGroupSpec" in spec:
            found += [spec["headGroupSpec"]["template"]]
            found += [group["template"] for group in spec["workerGroupSpecs"]]
    assert len(found) == 4
    return found


def test_kubernetes_accepts_every_object_and_pod():
    import kubernetes_validate

    latest = kubernetes_validate.latest_version()
    for document in load_kubernetes():
        if document["apiVersion"] == "ray.io/v1":
            jsonschema.validate(document, KUBERAY)
        else:
            kubernetes_validate.validate(document, latest, strict=True)
    for template in pod_templates():
        pod = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "x"}}
        kubernetes_validate.validate(pod | {"template": template}, latest, strict=True)


def test_clusters_on_kubernetes_ask_for_the_token_stay_inside_and_share_a_volume():
    policy = next(d for d in load_kubernetes() if d["kind"] == "NetworkPolicy")
    chosen = policy["spec"]["podSelector"]["matchLabels"]
    for document in load_kubernetes():
        if document["apiVersion"] == "ray.io/v1":
            spec = document["spec"].get("rayClusterSpec", document["spec"])
            assert spec["authOptions"] == {"mode": "token"}
            assert spec["headGroupSpec"]["serviceType"] == "ClusterIP"
            assert spec["rayVersion"] == version("ray")
    for template in pod_templates():
        assert chosen.items() <= template["metadata"]["labels"].items()
        assert template["spec"]["securityContext"]["runAsNonRoot"]
        (container,) = template["spec"]["containers"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        variables = {item["name"]: item["value"] for item in container["env"]}
        assert mounts["results"] == variables["PCORE_RESULTS"]


def test_the_slurm_script_asks_for_the_token_and_ends_only_its_own_processes():
    text = (CLUSTER / "slurm.sbatch").read_text()
    assert "export RAY_AUTH_MODE=token" in text
    assert "--dashboard-host 127.0.0.1" in text
    assert "#SBATCH --signal=B:TERM@240" in text
    for forbidden in ("ray stop", "pkill", "killall", "0.0.0.0"):
        assert forbidden not in text


def test_the_image_has_no_secret_and_no_root():
    lines = (CLUSTER / "Dockerfile").read_text().splitlines()
    assert [line for line in lines if line.startswith("USER")] == ["USER pcore"]
    ignored = (CLUSTER / "Dockerfile.dockerignore").read_text().splitlines()
    assert "*" in ignored, "the build sees only what is named"
    copied = [line.split()[2:-1] for line in lines if line.startswith("COPY --chown")]
    for name in (name for names in copied for name in names):
        assert (ROOT / name).exists()
        assert f"!{name}" in ignored

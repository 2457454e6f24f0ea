"""Files by name below a folder that is a local path, a shared mount or `s3://bucket/prefix`.

The engine stores everything in small files that are written whole and never changed: a file is
either complete or absent. Locally that means temporary file, fsync, rename; on S3 one upload, which
becomes visible when complete. S3 endpoint and credentials come from the usual
AWS_* variables (AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, ...). The folder itself may be a link; no link
below it is followed, so nothing outside is ever read, written or deleted.
"""

import builtins
import contextlib
import json
import os
import re
import stat
import uuid
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from pcore.files import write_file

CANNOT = "cannot be read or written"
RETRY_SECONDS = 5  # of Google Cloud Storage
TEMPORARY = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{8}\.tmp")  # names of `write_file`


@dataclass(frozen=True, slots=True)
class Entry:
    """A file: its name below the folder, its size in bytes, and when it was written (Unix time).
    is_file: it is not a link, pipe or device.
    """

    name: str
    size: int
    modified: float
    is_file: bool = True

    @property
    def is_hidden(self) -> bool:
        """Whether it, or a folder that it is in, is: those that are not finished are."""
        return "/." in f"/{self.name}"


class StorageFailed(OSError):
    """The folder cannot be read or written; the message says which and why."""


def parse_json(data: bytes | str) -> Any:
    """The values in the JSON of a file. Raises ValueError for everything that is none."""
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _impatient(uri: str) -> str:
    """Google's client waits a quarter of an hour for an unreachable network."""
    more = uri.startswith("gs://") and "retry_limit_seconds" not in uri
    return f"{uri}{'&' if '?' in uri else '?'}retry_limit_seconds={RETRY_SECONDS}" if more else uri


class Folder:
    """A folder of whole files. Names are relative, with forward slashes; `~` is the home folder.

    Whatever is wrong with the storage is a StorageFailed, a missing file FileNotFoundError.
    """

    def __init__(self, uri: str | Path):
        text = str(uri)
        self.remote = "://" in text
        if not self.remote:
            self.uri = str(Path(text).expanduser().absolute())
            self.base = self.uri
            return
        self.uri = text.rstrip("/")
        try:
            self._remote, self.base = pafs.FileSystem.from_uri(_impatient(self.uri))
        except (pa.ArrowInvalid, OSError) as error:
            raise ValueError(f"results folder {text!r}: {error}") from error

    def __str__(self) -> str:
        return self.uri

    @property
    def local(self) -> Path:
        """The folder as a path. Raises ValueError if it is remote."""
        if self.remote:
            raise ValueError(f"{self.uri} is not a local folder")
        return Path(self.base)

    @property
    def filesystem(self) -> Any:
        """What pyarrow reads data sets from, with `path(name)`; opened on first use."""
        return self._remote if self.remote else pafs.LocalFileSystem()

    def path(self, name: str) -> str:
        """The path of a file on `filesystem`."""
        return f"{self.base}/{name}"

    @contextlib.contextmanager
    def wrap_errors(self) -> Generator[None]:
        try:
            yield
        except (FileNotFoundError, StorageFailed):
            raise
        except OSError as error:
            reason = error.strerror or error
            raise StorageFailed(f"{self.uri} {CANNOT}: {reason}") from error

    def list(self, folder: str = "", links: bool = False) -> list[Entry]:
        """All whole files below `folder` (none if it does not exist), sorted by name; `links`: also
        what is neither file nor folder.
        """
        return [e for e in self.walk(folder) if (links or e.is_file) and not e.is_hidden]

    def walk(self, folder: str = "") -> builtins.list[Entry]:
        """`list`, with links, and with files that are being written."""
        with self.wrap_errors():
            found = self._list_remote(folder) if self.remote else self._list_local(folder)
            return sorted(found, key=lambda entry: entry.name)

    def _list_local(self, folder: str) -> Iterator[Entry]:
        if folder and (link := self._link_in(folder)):
            yield Entry(link, 0, 0.0, is_file=False)
            return
        todo = [folder]
        while todo:
            current = todo.pop()
            with (
                contextlib.suppress(FileNotFoundError, NotADirectoryError),
                os.scandir(self.path(current) if current else self.base) as entries,
            ):
                for entry in entries:
                    name = f"{current}/{entry.name}" if current else entry.name
                    if entry.is_dir(follow_symlinks=False):
                        todo.append(name)
                        continue
                    with contextlib.suppress(FileNotFoundError):
                        found = entry.stat(follow_symlinks=False)
                        is_file = stat.S_ISREG(found.st_mode)
                        yield Entry(name, found.st_size, found.st_mtime, is_file)

    def _link_in(self, name: str) -> str | None:
        """The first part of a path below the folder that is a link."""
        parts = name.split("/")
        partial = ("/".join(parts[: i + 1]) for i in range(len(parts)))
        return next((part for part in partial if os.path.islink(self.path(part))), None)

    def _check_inside(self, name: str) -> None:
        """Raise StorageFailed if a file of this name is outside the folder or behind a link."""
        parts = name.split("/")
        if {"", ".", ".."} & set(parts):
            raise StorageFailed(f"{self.uri} {CANNOT}: {name!r} is not a name below it")
        folder = "/".join(parts[:-1])
        if not self.remote and folder and (link := self._link_in(folder)):
            raise StorageFailed(f"{self.uri} {CANNOT}: {link} is a link, which is not followed")

    def _list_remote(self, folder: str) -> Iterator[Entry]:
        place = self.path(folder) if folder else self.base
        selector = pafs.FileSelector(place, recursive=True, allow_not_found=True)
        for info in self._remote.get_file_info(selector):
            # An upload that Ctrl-C cut before its first byte is an empty file.
            if info.type == pafs.FileType.File and info.size:
                name = info.path.removeprefix(f"{self.base}/")
                yield Entry(name, info.size, info.mtime_ns / 1e9)

    def read(self, name: str) -> bytes:
        """The bytes of a file. Raises FileNotFoundError, also for a link, a pipe or a folder."""
        with self.wrap_errors():
            return self._read_remote(name) if self.remote else self._read_local(name)

    def _read_local(self, name: str) -> bytes:
        if (link := self._link_in(name)) is not None:
            raise FileNotFoundError(f"{self.path(link)} is a link, which is not followed")
        # Opening a pipe would block until somebody writes to it.
        opened = os.open(self.path(name), os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        try:
            if not stat.S_ISREG(os.fstat(opened).st_mode):
                raise FileNotFoundError(f"{self.path(name)} is not a file")
        except FileNotFoundError:
            os.close(opened)
            raise
        with os.fdopen(opened, "rb") as file:
            return file.read()

    def _read_remote(self, name: str) -> bytes:
        """Asked for its length before a file is replaced and for its bytes after, S3 cuts it: then
        once more.
        """
        data = b""
        for _ in range(10):
            with self._remote.open_input_file(self.path(name)) as file:
                data = file.read()
            if len(data) == self._remote.get_file_info(self.path(name)).size:
                break
        return data

    def write(self, name: str, data: bytes, durable: bool = True) -> None:
        """Write a file so that it is either whole or absent. durable: also after a power cut."""
        self._check_inside(name)
        with self.wrap_errors():
            if self.remote:
                with self._remote.open_output_stream(self.path(name)) as out:
                    out.write(data)
            else:
                write_file(Path(self.path(name)), data, durable)

    def exists(self, name: str) -> bool:
        """Whether a file of this name is there."""
        with self.wrap_errors():
            if not self.remote:
                return Path(self.path(name)).is_file()
            info = self._remote.get_file_info(self.path(name))
            return info.type == pafs.FileType.File

    def delete(self, names: str | Iterable[str]) -> None:
        """Remove files; those that are gone already are no error."""
        for name in [names] if isinstance(names, str) else names:
            self._check_inside(name)
            with contextlib.suppress(FileNotFoundError), self.wrap_errors():
                if self.remote:
                    self._remote.delete_file(self.path(name))
                else:
                    Path(self.path(name)).unlink()

    def remove_if_empty(self, folder: str) -> None:
        """Remove an empty local folder; object stores have none."""
        if not self.remote and not self._link_in(folder):
            with contextlib.suppress(OSError):
                Path(self.path(folder)).rmdir()

    def check_writable(self) -> None:
        """Write, read and remove a file. Raises ValueError with the reason if that fails."""
        name = f"probe-{uuid.uuid4().hex[:8]}"
        try:
            self.write(name, b"ok")
            if self.read(name) != b"ok":
                raise OSError("what was written is not what is read")
            self.delete(name)
        except OSError as error:
            reason = str(error).removeprefix(f"{self.uri} {CANNOT}: ")
            raise ValueError(f"results folder {self.uri} cannot be written: {reason}") from error

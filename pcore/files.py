"""Files that are whole or absent."""

import os
import uuid
from pathlib import Path


def write_file(path: Path, data: bytes, durable: bool = True) -> None:
    """Write a file that is either complete or absent. durable: also after a power cut."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        out = temporary.open("wb")
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        out = temporary.open("wb")
    try:
        with out:
            out.write(data)
            if durable:
                out.flush()
                os.fsync(out.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)

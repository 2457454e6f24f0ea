"""The code hash of a result, which covers what pcore computes, not how its files are arranged.

It is a hash of all top-level definitions in the parts of pcore that affect results, without
docstrings, comments, imports and `__all__`. Moving a definition, rewording a docstring or
reformatting does not change it; changing a constant or an expression does.
"""

import ast
import functools
import hashlib
from collections.abc import Iterable
from pathlib import Path

import pcore

ROOT = Path(__file__).resolve().parents[3]
KIND = "a1:"  # begins the hashes of this kind; older ones of other kinds equal none of it
# Not `cli`, `diagnosis` and `conformance`, which do not affect rows.
PARTS = (
    "registry",
    "vocab",
    "config",
    "tasks",
    "encodings",
    "model",
    "evaluation",
    "training",
    "theory",
)
ARRANGEMENT = ("__all__ =", "if TYPE_CHECKING:")  # what a file exports or imports


@functools.cache
def hash_sources() -> str:
    """The hash of the installed pcore: KIND and 12 hex digits."""
    return hash_definitions(definitions(read_parts(Path(pcore.__path__[0]))))


def is_same_code(code_hash: str | None) -> bool | None:
    """Whether a row with this hash was computed by the current code; None if it has no hash."""
    return None if code_hash is None else code_hash == hash_sources()


def read_parts(folder: Path) -> list[str]:
    """The source files in the parts of a pcore folder that affect results."""
    files = [folder / f"{part}.py" for part in PARTS]
    files += [file for part in PARTS for file in (folder / part).rglob("*.py")]
    return [file.read_text() for file in files if file.is_file()]


def definitions(sources: Iterable[str]) -> frozenset[str]:
    """The top-level statements of source files in a normal form."""
    texts = (ast.unparse(node) for source in sources for node in _strip(ast.parse(source)).body)
    return frozenset(text for text in texts if not text.startswith(ARRANGEMENT))


def hash_definitions(texts: Iterable[str]) -> str:
    """KIND and 12 hex digits over definitions in any order."""
    return KIND + hashlib.sha256("\0".join(sorted(texts)).encode()).hexdigest()[:12]


def _strip(module: ast.Module) -> ast.Module:
    """The module without docstrings and imports, those inside functions included."""
    for node in ast.walk(module):
        for name in ("body", "orelse", "finalbody"):
            statements = getattr(node, name, None)
            if isinstance(statements, list):
                kept = [s for s in statements if not _computes_nothing(s)]
                empty = name == "body" and not kept and not isinstance(node, ast.Module)
                setattr(node, name, [ast.Pass()] if empty else kept)
    return module


def _computes_nothing(statement: ast.stmt) -> bool:
    """Whether this is an import, a docstring or another constant that stands alone."""
    alone = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return alone or isinstance(statement, (ast.Import, ast.ImportFrom))

"""Names to classes.

An entry of a table of contents, or `package.module:Class` from the user's own code.
"""

import ast
import hashlib
import importlib
import inspect
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
# Packages of this repository, which are no own code.
NOT_OWN = frozenset({"pcore", "sweeps", "analysis"})
LIBRARIES = (
    str(Path(__file__).parent),
    sysconfig.get_path("stdlib"),
    sysconfig.get_path("purelib"),
    "<",  # code without a file
)


def nearest(name: str, names: Iterable[str]) -> str:
    """ " Did you mean 'x'?" if one of the names is close, else the list of all."""
    names = list(names)
    if close := get_close_matches(name, names, n=1, cutoff=0.6):
        return f" Did you mean {close[0]!r}?"
    tails = {n.rsplit(".", 1)[-1]: n for n in names}
    if close := get_close_matches(name.rsplit(".", 1)[-1], tails, n=1, cutoff=0.6):
        return f" Did you mean {tails[close[0]]!r}?"
    return f" Known: {', '.join(names)}."


def resolve(name: str, table: Mapping[str, type[T]], kind: str) -> type[T]:
    """The class that `name` stands for: an entry of the table, or own code that derives from the
    base of all entries.

    Nothing is called, whatever the name: it may come from a file that somebody else wrote. Raises
    ValueError with the nearest right name.
    """
    if name in table:
        return table[name]
    if ":" not in name:
        hint = f"{nearest(name, table)} Own code: 'package.module:Class'."
        if "." in name:
            hint = f" Did you mean {':'.join(name.rsplit('.', 1))!r}?"
        raise ValueError(f"unknown {kind} {name!r}.{hint}")
    cls = import_named(name, kind)
    base = _common_base(table)
    if not (isinstance(cls, type) and issubclass(cls, base)):
        wanted = "a class" if base is object else f"a subclass of {base.__module__}:{base.__name__}"
        raise ValueError(f"{kind} {name!r} is not {wanted}")
    return cls


def import_named(name: str, kind: str) -> Any:
    """What `package.module:Name` stands for. Raises ValueError as `resolve`."""
    module_name, _, member = name.partition(":")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # own code may raise anything
        message = f"{type(error).__name__}: {error}"
        raise ValueError(f"{kind} {name!r}: cannot import {module_name!r}: {message}") from error
    if not hasattr(module, member):
        public = {n: v for n, v in vars(module).items() if not n.startswith("_")}
        own = [n for n, v in public.items() if getattr(v, "__module__", "") == module_name]
        hint = nearest(member, sorted(own or public))
        raise ValueError(f"{kind} {name!r}: module {module_name!r} has no {member!r}.{hint}")
    return getattr(module, member)


def _common_base(table: Mapping[str, type]) -> type:
    """The nearest class that all entries derive from; `object` of an empty table."""
    first = next(iter(table.values()), object)
    return next(base for base in first.__mro__ if all(issubclass(c, base) for c in table.values()))


def name_of(cls: type, table: Mapping[str, type]) -> str:
    """The inverse of `resolve`."""
    for name, entry in table.items():
        if entry is cls:
            return name
    return f"{cls.__module__}:{cls.__qualname__}"


def describe_error(error: Exception) -> str:
    """What was raised (of a bare assertion its line), and the last line of own code on the way
    there, if there is any, in one sentence.
    """
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not f.filename.startswith(LIBRARIES)][-1:]
    where = "".join(f" ({Path(f.filename).name}, line {f.lineno}, in {f.name})" for f in own)
    reason = str(error).strip().partition("\n")[0] or (frames[-1].line if frames else "")
    return f"{type(error).__name__}: {reason}{where}"


def own_code_hashes(named: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """{"<field>.source": hashes of the own code that a field names, in its order, by commas}."""
    return {
        f"{field}.source": ",".join(named_hash(name, field) for name in names)
        for field, names in named.items()
    }


def named_hash(name: str, kind: str) -> str:
    """The hash of own code by its name; its module counts even if the class is from another."""
    return source_hash(resolve(name, {}, kind), name.partition(":")[0])


@lru_cache(maxsize=256)
def source_hash(cls: type, module: str) -> str:
    """16 hex digits of the source files of a module, of a class that it names and of its bases,
    without those of pcore, and of the modules beside them that they import, directly or not
    (`imports_beside`).

    Whole files count, so a helper function or a constant does too; installed packages do not.
    Changes in pcore itself are covered by its numerics version. Raises ValueError if there is no
    file.
    """
    own: dict[str, str] = {}
    for module_name in dict.fromkeys([module, *(base.__module__ for base in cls.__mro__)]):
        if module_name.partition(".")[0] in {"pcore", "torch", *sys.stdlib_module_names}:
            continue
        try:
            own[module_name] = inspect.getsource(importlib.import_module(module_name))
        except (OSError, TypeError) as error:
            raise ValueError(
                f"{cls.__qualname__}: no source file for module {module_name!r}, "
                "so its trials would have no identity: put the class in a file"
            ) from error
    beside = {name: source for module in own for name, source in imports_beside(module).items()}
    helpers = [(name, beside[name]) for name in sorted(beside.keys() - own.keys())]
    digest = hashlib.sha256()
    for module_name, source in [*own.items(), *helpers]:
        digest.update(f"{module_name}\x1f{source}\x1f".encode())
    return digest.hexdigest()[:16]


def imports_beside(module_name: str) -> dict[str, str]:
    """Sources by name of the modules that this one imports, directly or not, from the folder that
    it was itself imported from; not those of this repository or of an installation of packages.
    """
    file = Path(
        inspect.getfile(sys.modules[module_name])
    ).absolute()  # a link is beside its helpers
    is_package = file.name == "__init__.py"
    root = file.parents[module_name.count(".") + is_package]
    found: dict[str, str] = {}
    queue = [(module_name, is_package, file)]
    while queue:
        for name in _imported(*queue.pop()):
            path = root.joinpath(*name.split("."))
            known = name in found or name == module_name or name.partition(".")[0] in NOT_OWN
            if known or "site-packages" in path.parts:
                continue
            for file in (path.with_suffix(".py"), path / "__init__.py"):
                if file.is_file():
                    found[name] = file.read_text()
                    queue.append((name, file.name == "__init__.py", file))
    return found


def _imported(module_name: str, is_package: bool, file: Path) -> list[str]:
    """The names that the import statements of a file could mean, those of packages included."""
    names: list[list[str]] = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parts = module_name.split(".")
            package = parts[: len(parts) + is_package - node.level] if node.level else []
            start = package + (node.module.split(".") if node.module else [])
            names += [[*start, alias.name] for alias in node.names]
    return sorted({".".join(name[:end]) for name in names for end in range(1, len(name) + 1)})

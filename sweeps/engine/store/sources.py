"""The code hash of a result: of what pcore computes when it trains and evaluates.

It covers every definition that `train` reaches by name. Names are followed through imports, so that
a definition may move to another file, while another function under the same name is seen. The
normal form is that of the syntax tree, in which Python versions agree, without docstrings,
comments, function annotations and the texts of errors.
"""

import ast
import functools
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pcore

KIND = "a2:"  # begins the hashes of this kind; older ones are `a1:` and plain hex digits
# Where training begins, here and at the commits of published rows; the first that exists.
ROOTS = (("pcore.training", "train"), ("pcore.training.train", "train"), ("pcore.train", "train"))
# The hashes whose numbers are those of the code with this hash, and why. An entry needs
# `python -m sweeps replicate` of a stratified sample (tasks, encodings, mixers, packed and alone)
# to say "identical". If the code changes, no entry holds until the first one names the new hash.
SAME_AS = "a2:0c382de08b66"
SAME = {
    "a2:960511723426": "own code that leaves something out is refused; its own module counts",
    "a2:6bd8e5c4069e": "one place says what limits IDs; sums of more operands; choices of numbers",
    "a2:03011729f06f": "ranges of a row may overlap on one level, by default never",
    "a2:3626d8a9552a": "no problem alone among packed rows; answers are found in one way",
    "a2:bd3061f05c45": "five more settings have an upper bound; long ranges are checked fast",
    "a2:6cb10e94ca7a": "predictions take no type; no construction with a scratchpad",
    "a2:05d4512924f2": "own code is imported in one function",
    "a2:99cae4f73111": "a construction attends in one piece",
    "a2:c1b5a682f270": "names of fields are listed once per class",
    "a2:fb9fc4cbd2ef": "one result of a judgement; a smaller theory room; meaning as a table",
    "a2:c3ef900ca6d8": "a stand-in for a model needs no blocks; SOLVED is analysis'",
    "a2:e4440a72565e": "types that pyright follows",
    "a2:e316ae43093c": "settings have bounds; states and checkpoints are checked when read",
    "a2:eb0a051657e8": "helpers beside own code count into its identity",
    "a2:b4cbed20ef73": "one forward over parts in place of five block loops",
    "a2:2c2a73c57cfd": "names of own code are checked where they are resolved",
    "a1:190725421196": "the same definitions, hashed as text of Python 3.11",
    "a1:204b8159a673": "the same definitions, hashed as text of Python 3.12 and 3.13",
}


@functools.cache
def hash_sources() -> str:
    """The hash of the installed pcore: KIND and 12 hex digits."""
    return hash_of(read_modules(Path(pcore.__path__[0])))


def is_same_code(code_hash: str | None) -> bool | None:
    """Whether a row with this hash has the numbers of the current code; None if it has no hash."""
    return None if code_hash is None else version_of(code_hash) == hash_sources()


def version_of(code_hash: str) -> str:
    """One name for all hashes of code that computes the same numbers."""
    return hash_sources() if hash_sources() == SAME_AS and code_hash in SAME else code_hash


def read_modules(folder: Path) -> dict[str, str]:
    """The sources of a package by the names of its modules."""
    modules = {}
    for file in folder.rglob("*.py"):
        parts = (folder.name, *file.relative_to(folder).with_suffix("").parts)
        modules[".".join(parts).removesuffix(".__init__")] = file.read_text()
    return modules


def hash_of(modules: Mapping[str, str], roots: Iterable[tuple[str, str]] = ROOTS) -> str:
    """KIND and 12 hex digits over what the first existing root reaches."""
    forms = sorted(reached(modules, roots).values())
    return KIND + hashlib.sha256("\0".join(forms).encode()).hexdigest()[:12]


def reached(
    modules: Mapping[str, str], roots: Iterable[tuple[str, str]] = ROOTS
) -> dict[tuple[str, str], str]:
    """(module, name) to the normal form of all top-level definitions that the first existing root
    reaches; under the name "" those statements of a module that define nothing."""
    names = _Names(modules)
    waiting = [_Definition(names, *root) for root in roots if names.defines(*root)][:1]
    assert waiting, f"none of the roots {roots} is defined"
    while waiting:
        if (definition := waiting.pop()).key not in names.forms:
            form = _Form(names, definition.home, names.statements(definition.home, definition.name))
            names.forms[definition.key] = form
            waiting += [*form.used, _Definition(names, definition.home, "")]
    return {
        definition: f"{_Definition(names, *definition)}={form.nodes}"
        for definition, form in names.forms.items()
        if form.nodes
    }


@dataclass(kw_only=True, slots=True)
class _Module:
    """The top level of a file: its statements by the name that they define, and its imports."""

    defined: dict[str, list[ast.stmt]] = field(default_factory=dict)
    imported: dict[str, str] = field(default_factory=dict)  # local name: full dotted name

    @classmethod
    def read(cls, source: str) -> "_Module":
        module, tree = cls(), ast.parse(source)
        module.imported = _imports(tree.body)
        for statement in tree.body:
            if not _computes_nothing(statement):
                for name in _defines(statement):
                    module.defined.setdefault(name, []).append(statement)
        return module


class _Names:
    """What names stand for, across modules, which are parsed when they are first needed."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self.sources = sources
        self.modules: dict[str, _Module] = {}
        self.forms: dict[tuple[str, str], _Form] = {}  # what has been reached

    def module(self, name: str) -> _Module:
        if name not in self.modules:
            self.modules[name] = _Module.read(self.sources[name])
        return self.modules[name]

    def statements(self, home: str, name: str) -> list[ast.stmt]:
        return self.module(home).defined.get(name, [])

    def defines(self, home: str, name: str) -> bool:
        return home in self.sources and name in self.module(home).defined

    def find(self, dotted: str) -> "_Definition | str":
        """The definition that a full dotted name leads to, else that name."""
        home, _, name = dotted.rpartition(".")
        if self.defines(home, name):
            return _Definition(self, home, name)
        if home in self.sources and name in self.module(home).imported:
            return self.find(self.module(home).imported[name])
        return dotted


class _Definition:
    """A top-level definition, shown by its name wherever it lies; if several of the name have been
    reached, by a hash of its own statements too."""

    def __init__(self, names: _Names, home: str, name: str) -> None:
        self.names, self.home, self.name = names, home, name
        self.key = (home, name)

    def __repr__(self) -> str:
        if sum(name == self.name for _, name in self.names.forms) == 1:
            return self.name
        plain = _Form(None, self.home, self.names.statements(self.home, self.name))
        return f"{self.name}@{hashlib.sha256(repr(plain.nodes).encode()).hexdigest()[:12]}"


class _Form:
    """The normal form of the statements of one definition, and the definitions that they use.

    names: None = names stay as they are written.
    """

    def __init__(self, names: _Names | None, home: str, statements: list[ast.stmt]) -> None:
        self.names, self.home = names, home
        self.used: list[_Definition] = []
        self.imported = dict(names.module(home).imported) if names else {}
        for statement in statements:
            self.imported |= _imports(ast.walk(statement))
        self.nodes = [self.node(s, frozenset()) for s in statements]

    def node(self, node: ast.AST, local: frozenset[str]) -> Any:
        """A node as nested lists; local: names that a surrounding function binds."""
        match node:
            case ast.Constant():
                return ["Constant", type(node.value).__name__, repr(node.value)]
            case ast.JoinedStr():
                return ["JoinedStr", *self.string(node, local)]
            case ast.Name() | ast.Attribute():
                if dotted := self.dotted(node, local):
                    return self.name(dotted)
            case ast.Raise(exc=ast.Call(func=error)):
                return ["Raise", self.node(error, local)]
            case ast.Assert():
                return ["Assert", self.node(node.test, local)]
            case ast.AnnAssign() if local and node.value and node.simple:
                return self.node(ast.Assign([node.target], node.value), local)
            case ast.FunctionDef() | ast.Lambda():
                local = local | {"", *_bound(node)}  # "": inside a function
            case _:
                pass
        return [type(node).__name__, *self.fields(node, local)]

    def fields(self, node: ast.AST, local: frozenset[str]) -> Iterator[Any]:
        skipped = {"returns", "type_comment", "kind", "ctx"}
        if isinstance(node, ast.arg):
            skipped.add("annotation")
        for name, value in ast.iter_fields(node):
            if name in skipped or value in (None, []):
                continue
            if isinstance(value, list):
                kept = [v for v in value if not _computes_nothing(v)]
                shown = [self.node(v, local) if isinstance(v, ast.AST) else v for v in kept]
            else:
                shown = self.node(value, local) if isinstance(value, ast.AST) else value
            yield [name, shown]

    def string(self, node: ast.JoinedStr, local: frozenset[str]) -> Iterator[Any]:
        """The parts of an f-string; Python versions split its constants differently."""
        text = ""
        for part in node.values:
            if isinstance(part, ast.Constant):
                text += str(part.value)
                continue
            if text:
                yield text
            text = ""
            yield self.node(part, local)
        if text:
            yield text

    def dotted(self, node: ast.AST, local: frozenset[str]) -> str | None:
        """The full name that a name or attribute stands for; None of one that is computed."""
        if isinstance(node, ast.Attribute):
            base = self.dotted(node.value, local)
            # of a definition or a local name an attribute is computed, of a module it is a name
            is_module = base is not None and self.names and isinstance(self.names.find(base), str)
            return f"{base}.{node.attr}" if is_module else None
        if isinstance(node, ast.Name) and node.id not in local:
            if node.id in self.imported:
                return self.imported[node.id]
            if self.names and self.names.defines(self.home, node.id):
                return f"{self.home}.{node.id}"
        return None

    def name(self, dotted: str) -> Any:
        found = self.names.find(dotted) if self.names else dotted
        if isinstance(found, str):
            return ["Import", found]
        self.used.append(found)
        return ["Name", found]


def _imports(nodes: Iterable[ast.AST]) -> dict[str, str]:
    """What the imports among these nodes bind: local name to full dotted name."""
    bound: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.partition(".")[0]
                bound[alias.asname or first] = alias.name if alias.asname else first
        elif isinstance(node, ast.ImportFrom):
            assert node.module, "imports without a module are not followed"
            bound |= {
                alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names
            }
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            bound |= _imports(node.body)
    return bound


def _defines(statement: ast.stmt) -> list[str]:
    """The names that a top-level statement defines; [""] if it only does something."""
    match statement:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Assign(targets=targets):
            found = [node for target in targets for node in ast.walk(target)]
            names = [
                n.id for n in found if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
            ]
        case ast.AnnAssign(target=ast.Name(id=name)):
            names = [name]
        case _:
            names = []
    return names or [""]


def _bound(function: ast.FunctionDef | ast.Lambda) -> Iterator[str]:
    """The names that a function binds: its arguments, and what its body assigns."""
    for node in ast.walk(function):
        match node:
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.FunctionDef(name=name) if node is not function:
                yield name
            case _:
                pass


def _computes_nothing(node: Any) -> bool:
    """Whether this is an import, a docstring, what a file exports, or what only a checker reads."""
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant()):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING"), orelse=[]):
            return True
        case _:
            return False

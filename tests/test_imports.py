"""The import law: analysis -> sweeps.engine.store -> pcore -> torch; frameworks stay at the rim."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
RIM = {"ray": ("run.py", "ray_cluster.py"), "mlflow": ("tracking.py",), "optuna": ("search.py",)}
NOT_FOR_PCORE = {"ray", "mlflow", "optuna", "pyarrow", "pandas", "scipy", "seaborn", "psutil"}


def sources(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def imports(file: Path) -> Iterator[tuple[str, bool]]:
    """(module, is it imported inside a function) of every import, type-checking ones included."""
    package = file.relative_to(ROOT).with_suffix("").parts[:-1]

    def visit(node: ast.AST, inside: bool) -> Iterator[tuple[str, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                yield from ((alias.name, inside) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                start = package[: len(package) - child.level + 1] if child.level else ()
                name = ".".join([*start, *([child.module] if child.module else [])])
                yield from ((f"{name}.{alias.name}", inside) for alias in child.names)
            elif (
                isinstance(child, ast.Call)
                and ast.unparse(child.func) in ("import_module", "importlib.import_module")
                and isinstance(child.args[0], ast.Constant)
            ):
                yield str(child.args[0].value), inside
            is_function = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            yield from visit(child, inside or is_function)

    yield from visit(ast.parse(file.read_text()), False)


def roots(file: Path) -> set[str]:
    return {name.split(".")[0] for name, _ in imports(file)}


def name_of(file: Path) -> str:
    return str(file.relative_to(ROOT))


@pytest.mark.parametrize("file", sources("pcore"), ids=name_of)
def test_pcore_knows_no_framework_and_nothing_above_it(file):
    assert not roots(file) & (NOT_FOR_PCORE | {"sweeps", "analysis", "tests"})
    for name, inside in imports(file):
        if name.split(".")[0] == "matplotlib":
            assert file.name == "picture.py"
            assert inside or _only_for_types(file, name)


def _only_for_types(file: Path, name: str) -> bool:
    """Whether a module stands below `if TYPE_CHECKING:`."""
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            text = ast.unparse(node)
            module, _, leaf = name.rpartition(".")
            return f"from {module} import {leaf}" in text or f"import {name}" in text
    return False


@pytest.mark.parametrize("file", sources("sweeps"), ids=name_of)
def test_frameworks_have_their_files_and_sweeps_do_not_analyse(file):
    assert not roots(file) & {"analysis", "tests"}
    for framework, owners in RIM.items():
        if framework in roots(file):
            assert name_of(file) in {f"sweeps/engine/{owner}" for owner in owners}


@pytest.mark.parametrize("file", sources("analysis"), ids=name_of)
def test_analysis_reads_parquet_only(file):
    assert not roots(file) & {"ray", "mlflow", "optuna", "tests"}
    for name, _ in imports(file):
        if name.split(".")[0] == "sweeps":
            assert name.startswith(("sweeps.engine.store", "sweeps.tables")), name


def test_the_law_sees_every_way_to_import(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    file = tmp_path / "pcore" / "deep" / "x.py"
    file.parent.mkdir(parents=True)
    file.write_text(
        "import a.b\nfrom c import d\nfrom . import e\nfrom ..f import g\n"
        "def h():\n    import i\n    importlib.import_module('j.k')\n"
    )
    assert dict(imports(file)) == {
        "a.b": False,
        "c.d": False,
        "pcore.deep.e": False,
        "pcore.f.g": False,
        "i": True,
        "j.k": True,
    }

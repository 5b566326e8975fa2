"""Data moves one way: who may import whom, between packages and inside them."""

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
OURS = {"hardware", "workloads", "planners", "simulator", "experiments"}
MAY_IMPORT = {
    "hardware": set[str](),
    "workloads": set[str](),  # and the reader of files, READER
    "planners": {"hardware", "workloads"},
    "simulator": {"hardware", "workloads", "planners"},
    "experiments": OURS,
}
"""The face, ``accelarray.py``, may import all of them; none of them may import it."""
READER = "hardware.reader"
"""Knows nothing of hardware; all packages read their files with it, ``workloads`` too."""
ONLY_IN = {"simpy": "simulator", "pandas": "experiments", "matplotlib": "experiments"}


def imported(path: Path, top_level_only: bool = False) -> set[str]:
    """Names of the packages that a file imports; the reader, which all may, is none of them."""
    tree = ast.parse(path.read_text())
    nodes = tree.body if top_level_only else list(ast.walk(tree))
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.add((node.module or "").partition(".")[0] if node.module != READER else READER)
    return names


@pytest.mark.parametrize("package", sorted(OURS))
def test_packages_import_only_what_they_may(package: str) -> None:
    files = list((ROOT / package).rglob("*.py"))
    assert files
    for path in files:
        names = imported(path)
        assert "accelarray" not in names, path
        assert names & OURS <= MAY_IMPORT[package] | {package}, path
        for library, home in ONLY_IN.items():
            assert library not in names or package == home, path


def test_the_reader_knows_nothing_of_hardware_but_quantities() -> None:
    path = ROOT / "hardware" / "reader.py"
    assert set(within(path, modules("hardware"))) == {"hardware.quantity"}


BY_ITSELF = "simulator.engine"
"""Stands on the standard library and these alone."""
BELOW = {"numpy", "simpy"}


def test_the_engine_stands_by_itself() -> None:
    folder = ROOT / BY_ITSELF.replace(".", "/")
    for path in folder.glob("*.py"):
        tree = ast.parse(path.read_text())
        assert imported(path) <= sys.stdlib_module_names | BELOW | {"simulator"}, path
        ours = set(within(path, modules("simulator")))
        assert all(f"{name}.".startswith(f"{BY_ITSELF}.") for name in ours), path
        assert not set(private_reads(tree)), path


def private_reads(tree: ast.AST) -> Iterator[str]:
    """Private attributes that are read of anything but oneself: SimPy's are its own business."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            own = isinstance(node.value, ast.Name) and node.value.id == "self"
            private = node.attr.startswith("_") and node.attr not in ("_replace", "_fields")
            if private and not node.attr.startswith("__") and not own:
                yield node.attr


def test_the_face_imports_nothing_when_it_is_imported() -> None:
    assert imported(ROOT / "accelarray.py", top_level_only=True) <= sys.stdlib_module_names
    assert imported(ROOT / "accelarray.py") & OURS


def modules(package: str) -> dict[str, Path]:
    """Every module of a package by its dotted name; a folder goes by its own."""
    found = {}
    for path in (ROOT / package).rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def within(path: Path, known: dict[str, Path]) -> Iterator[str]:
    """Modules that one imports anywhere in its text, also for type checkers alone."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module in known:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            yield from names & known.keys() or {node.module}


@pytest.mark.parametrize("package", sorted(OURS))
def test_no_package_has_an_import_circle(package: str) -> None:
    known = modules(package)
    graph = {name: set(within(path, known)) - {name} for name, path in known.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


MOST_FILES, MOST_LINES, MOST_OF_A_FUNCTION = 12, 500, 60


@pytest.mark.parametrize("package", sorted(OURS))
def test_folders_files_and_functions_fit_in_a_head(package: str) -> None:
    files = {path for path in (ROOT / package).rglob("*.py") if path.name != "__init__.py"}
    folders = Counter(path.parent for path in files)
    full = [str(folder) for folder, count in folders.items() if count > MOST_FILES]
    assert not full, f"more than {MOST_FILES} files: join those of one idea, or make a folder"
    for path in files:
        text = path.read_text()
        assert len(text.splitlines()) <= MOST_LINES, path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and node.end_lineno is not None:
                assert node.end_lineno - node.lineno < MOST_OF_A_FUNCTION, (path, node.name)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id != "id", f"{path}: id() is no key"

"""Data moves one way: who may import whom."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
OURS = {"hardware", "workloads", "planners", "simulator", "experiments"}
MAY_IMPORT = {
    "hardware": set[str](),
    "workloads": set[str](),
    "planners": {"hardware", "workloads"},
    "simulator": {"hardware", "workloads", "planners"},
    "experiments": OURS,
}
ONLY_IN = {"simpy": "simulator", "pandas": "experiments", "matplotlib": "experiments"}


def imported(path: Path, top_level_only: bool = False) -> set[str]:
    tree = ast.parse(path.read_text())
    nodes = tree.body if top_level_only else list(ast.walk(tree))
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.add((node.module or "").partition(".")[0])
    return names


@pytest.mark.parametrize("package", sorted(OURS))
def test_packages_import_only_what_they_may(package: str) -> None:
    files = list((ROOT / package).rglob("*.py"))
    assert files
    for path in files:
        names = imported(path)
        assert names & OURS <= MAY_IMPORT[package] | {package}, path
        for library, home in ONLY_IN.items():
            assert library not in names or package == home, path


def test_the_command_line_starts_without_heavy_libraries() -> None:
    heavy = {"matplotlib", "pandas", "numpy", "rich", "pydantic", "simpy"}
    files = [ROOT / "experiments" / "cli.py", *(ROOT / "experiments/commands").glob("*.py")]
    for path in files:
        assert not imported(path, top_level_only=True) & (heavy | OURS - {"experiments"}), path

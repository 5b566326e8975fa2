"""Write docs/reference/architecture.md: all folders and their imports, from the code."""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ("hardware", "workloads", "planners", "simulator", "experiments")
HEAD = """# Architecture

A training step passes through these packages:

1. `workloads` describes the network, and `hardware` the array.
2. `planners` splits every layer over the array.
3. `simulator.sharding` finds which part of each tensor a device holds, and which collectives bring
   the missing parts.
4. `simulator.lowering` writes the operations of each device, in order.
5. `simulator.cost` gives the time of a core's operation, and `simulator.collectives` the traffic of
   the links.
6. `simulator.engine` runs the operations on SimPy and writes records.
7. `simulator.analysis` reads the records.

`experiments` runs studies of many steps and shows the results. `accelarray.py` offers the same to
scripts and notebooks.

Imports go one way: an arrow points from a folder to one that it imports. Arrows that follow from
other arrows are left out. `python -m tests.module_map` writes this page from the imports, and a
test compares them. [The engine](../explanation/engine.md) describes the path of one step.
`CONTRIBUTING.md` says where to add what.
"""


def folders() -> list[Path]:
    """All folders of the source that have Python files."""
    found = {path.parent for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    return sorted(folder.relative_to(ROOT) for folder in found)


def name_of(folder: Path) -> str:
    """As it is imported."""
    return ".".join(folder.parts)


def imports() -> dict[str, set[str]]:
    """By folder, the other folders that it imports."""
    modules = {
        ".".join(path.with_suffix("").parts): name_of(folder)
        for folder in folders()
        for path in (p.relative_to(ROOT) for p in (ROOT / folder).glob("*.py"))
    }
    names = {name_of(folder) for folder in folders()}
    found = defaultdict[str, set[str]](set)
    for folder in folders():
        own = name_of(folder)
        for path in (ROOT / folder).glob("*.py"):
            if path.name == "__init__.py":  # a package's own face
                continue
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom) and node.module:
                    for alias in node.names:
                        whole = f"{node.module}.{alias.name}"
                        target = modules.get(whole) or modules.get(node.module)
                        target = target or (node.module if node.module in names else None)
                        if target and target != own:
                            found[own].add(target)
    return dict(found)


def reduced(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """Without arrows that follow from two others; where folders import each other all stay."""
    reach = {one: _reached(graph, one) for one in {*graph, *set().union(*graph.values())}}

    def follows(one: str, other: str) -> bool:
        return any(
            other in reach[between] and between not in reach[other] and one not in reach[between]
            for between in graph[one] - {other}
        )

    return {
        one: {other for other in others if not follows(one, other)} for one, others in graph.items()
    }


def _reached(graph: dict[str, set[str]], start: str) -> set[str]:
    seen, left = set[str](), list(graph.get(start, ()))
    while left:
        one = left.pop()
        if one not in seen:
            seen.add(one)
            left.extend(graph.get(one, ()))
    return seen


def said(folder: Path) -> str:
    """The first sentence of a folder's docstring."""
    doc = ast.get_docstring(ast.parse((ROOT / folder / "__init__.py").read_text("utf-8"))) or ""
    return doc.splitlines()[0]


def page() -> str:
    """The page in Markdown."""
    core = {one: others for one, others in imports().items() if one.startswith("simulator.")}
    inside = {
        one: {other for other in others if other.startswith("simulator.")}
        for one, others in core.items()
    }
    lines = [HEAD, "## The simulator's folders\n", "```mermaid", "flowchart TD"]
    for one, others in sorted(reduced(inside).items()):
        lines += [f"  {one} --> {other}" for other in sorted(others)]
    lines += [
        "```",
        "",
        "## All folders",
        "",
        "| folder | files | what is in it |",
        "|---|---|---|",
    ]
    for folder in folders():
        many = len([*(ROOT / folder).glob("*.py")]) - 1  # but for __init__.py
        lines.append(f"| `{folder}` | {many} | {said(folder)} |")
    return "\n".join(lines) + "\n"


def main(path: str = "docs/reference/architecture.md") -> None:
    """Write the page."""
    Path(path).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])

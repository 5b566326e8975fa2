"""The page of all folders and who imports whom, from the code: docs/architecture.md."""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ("hardware", "workloads", "planners", "simulator", "experiments")
HEAD = """# Architecture

A step goes one way through the code. `workloads` says what is trained, `hardware` on what. A
planner splits every layer over the array (`planners`). `simulator.sharding` says which part of
each tensor a device holds and which collectives bring what is missing; `simulator.lowering` writes
what each device does, in which order; `simulator.cost` says how long a core takes for it and
`simulator.collectives` what links carry. `simulator.engine` runs that on SimPy and leaves records,
which `simulator.analysis` reads. `experiments` asks questions of many steps and shows the answers;
`accelarray.py` is the same for scripts and notebooks.

Folders import one way: an arrow goes from a folder to one that it imports; arrows that follow
from others are left out. This page is made from the imports by
`python -m tests.module_map docs/architecture.md`, and a test compares it with the code.
[The engine](engine.md) has the way of one step in more detail, and
[CONTRIBUTING](../CONTRIBUTING.md#readme) where to add what.
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


def main(path: str = "docs/architecture.md") -> None:
    """Write the page."""
    Path(path).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""The executed notebooks: run one's cells and keep what they print and show.

    python -m tests.docs_notebooks

runs the notebooks in ``docs/notebooks`` and stores their outputs.
"""

import ast
import base64
import contextlib
import io
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from experiments.pictures.figures import save
from tests.docs_pages import ROOT

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def output_of(source: str, namespace: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """Run a cell as Jupyter does: what it prints, then the value of its last expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    out, value = io.StringIO(), None
    with contextlib.redirect_stdout(out):
        exec(compile(tree, "cell", "exec"), namespace)  # noqa: S102  (our own docs)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), namespace)  # noqa: S307
    outputs: list[dict[str, Any]] = []
    if out.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": lines(out.getvalue())})
    if value is not None:
        data: dict[str, Any] = {"text/plain": lines(repr(value))}
        if isinstance(value, Figure):
            data = {"image/png": picture(value), "text/plain": ["<Figure>"]}
        outputs.append(
            {
                "output_type": "execute_result",
                "execution_count": number,
                "metadata": {},
                "data": data,
            }
        )
    return outputs


def lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def picture(figure: Figure) -> str:
    with tempfile.TemporaryDirectory() as folder:
        save(figure, str(path := Path(folder) / "picture.png"))
        return base64.b64encode(path.read_bytes()).decode()


def executed(path: Path) -> dict[str, Any]:
    """A notebook with the outputs of today, run in the current folder."""
    notebook: dict[str, Any] = json.loads(path.read_text())
    namespace: dict[str, Any] = {}
    number = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            number += 1
            cell["execution_count"] = number
            cell["outputs"] = output_of("".join(cell["source"]), namespace, number)
    return notebook


def texts(notebook: dict[str, Any]) -> list[list[str]]:
    """What a notebook shows, pictures by their kind alone: their bytes depend on fonts."""
    return [
        [
            *output.get("text", []),
            *output.get("data", {}).get("text/plain", []),
            *sorted(output.get("data", {})),
        ]
        for cell in notebook["cells"]
        for output in cell.get("outputs", [])
    ]


def main() -> None:
    for path in NOTEBOOKS:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            notebook = executed(path)
            os.chdir(ROOT)
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()

"""The documentation's console and Python examples run, and print what they say.

``console`` blocks: commands after ``$``, then their output, in which a line
``...`` stands for any lines. ``python`` blocks of a page run in one namespace.
``toml`` and ``text`` blocks whose first line is ``# NAME`` become that file.
"""

import contextlib
import fnmatch
import functools
import io
import re
import shlex
from pathlib import Path

import pytest

from experiments.cli import main
from tests import api_reference, module_map

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[str, str]]:
    return [
        (language, re.sub(rf"^{indent}", "", text, flags=re.MULTILINE))
        for indent, language, text in BLOCK.findall(page.read_text())
    ]


def commands(text: str) -> list[tuple[str, str]]:
    parts = re.split(r"^\$ (.*)\n", text, flags=re.MULTILINE)
    assert parts[0] == "", f"output before the first command: {parts[0]!r}"
    return list(zip(parts[1::2], parts[2::2], strict=True))


CHANGES = re.compile(r"--store|--output|--plot|--report|--trace|--device ")
"""Options that write: what a command prints may be otherwise after one of these."""


def printed(command: str) -> str:
    program, *args = shlex.split(command)
    assert program == "accelarray", command
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(args) == 0, command
    return out.getvalue().rstrip()


def check(out: str, wanted: str) -> None:
    pattern = "\n".join(
        "*" if line == "..." else re.sub(r"[\[*?]", r"[\g<0>]", line)
        for line in wanted.rstrip().splitlines()
    )
    assert fnmatch.fnmatchcase(out, pattern), out


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    ran = functools.cache(printed)  # a page may show one command's output in several pieces
    for language, text in blocks(page):
        if language in ("toml", "text") and text.startswith("# "):
            ran.cache_clear()
            name, _, rest = text.removeprefix("# ").partition("\n")
            Path(name).write_text(rest)
        elif language == "python":
            exec(compile(text, str(page), "exec"), namespace)  # noqa: S102  (our own docs)
        elif language == "console":
            for command, wanted in commands(text):
                if CHANGES.search(command):
                    ran.cache_clear()
                check(ran(command), wanted)
        elif language != "mermaid":  # a picture
            assert language == "sh", f"{page}: {language} blocks are not checked"


def test_links_and_pictures_exist() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
            if not target.startswith("https://"):
                assert (page.parent / target).exists(), f"{page}: {target}"


def test_the_api_reference_is_what_the_docstrings_say() -> None:
    assert (ROOT / "docs" / "reference" / "api.md").read_text() == api_reference.page()


def test_the_module_map_is_what_the_imports_say() -> None:
    assert (ROOT / "docs" / "reference" / "architecture.md").read_text() == module_map.page()


def test_ci_runs_the_readmes_test_command() -> None:
    (tests,) = [text for language, text in blocks(ROOT / "README.md") if "pytest" in text]
    *_, install, test = (part.strip() for part in tests.split("&&"))
    script = (ROOT / ".ci" / "run").read_text()
    for part in (install, test):
        assert part.removeprefix(".venv/bin/") in script

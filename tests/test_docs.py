"""The documentation's examples run and print what it says, its links lead somewhere."""

import json
import re
from pathlib import Path

import pytest

from tests import api_reference, docs_notebooks, docs_outputs, module_map, options_page
from tests.docs_pages import PAGES, ROOT, Example, blocks, examples, matches, name_of


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for example in examples(page):
        assert matches(example), f"{example.command}\n{example.out}"


@pytest.mark.parametrize("path", docs_notebooks.NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_show_what_their_cells_give(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kept, today = json.loads(path.read_text()), docs_notebooks.executed(path)
    assert docs_notebooks.texts(today) == docs_notebooks.texts(kept)
    assert path.stat().st_size < 200_000


def slugs(page: Path) -> set[str]:
    """Anchors of a page's headings, as the forge and mkdocs make them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_and_pictures_exist(page: Path) -> None:
    for link in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        if not link.startswith("https://"):
            target, _, anchor = link.partition("#")
            path = page.parent / target if target else page
            assert path.exists(), f"{name_of(page)}: {link}"
            known = {*slugs(path), "readme"} if anchor else {""}
            assert anchor in known, f"{name_of(page)}: {link} is none of {sorted(known)}"


def test_the_api_reference_is_what_the_docstrings_say() -> None:
    assert (ROOT / "docs" / "reference" / "api.md").read_text() == api_reference.page()


def test_the_module_map_is_what_the_imports_say() -> None:
    assert (ROOT / "docs" / "reference" / "architecture.md").read_text() == module_map.page()


def test_the_page_of_options_is_what_the_table_says() -> None:
    assert (ROOT / "docs" / "reference" / "options.md").read_text() == options_page.page()


def test_ci_runs_the_readmes_test_command() -> None:
    (tests,) = [text for language, text in blocks(ROOT / "README.md") if "pytest" in text]
    *_, install, test = (part.strip() for part in tests.split("&&"))
    script = (ROOT / ".ci" / "run").read_text()
    for part in (install, test):
        assert part.removeprefix(".venv/bin/") in script


OLD = """│ execution  │ deployed │
...
│ iteration  │ 1.5 s    │
│ share      │ 40 %     │
...
"""
NEW = """title
│ execution  │ deployed     │
│ chips      │ 8            │
│ iteration  │ 1,400 ms     │
│ samples    │ 5 a second   │
│ share      │ 41 %         │
└────────────┴──────────────┘"""


def test_outputs_are_brought_up_to_date_line_by_line() -> None:
    lines = NEW.splitlines()
    new = docs_outputs.renewed(Example("accelarray simulate", OLD, NEW))
    assert new.splitlines() == ["...", lines[1], "...", *lines[3:6], "..."]
    assert matches(Example("", new, NEW))


def test_a_line_that_no_output_has_is_named() -> None:
    with pytest.raises(docs_outputs.GoneError, match="quite another thing"):
        docs_outputs.renewed(Example("", "...\nquite another thing\n...\n", NEW))

"""Everything that a user reads is short sentences, and uses the terms of the glossary."""

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.cli import COMMANDS, parser_of, whole
from tests.docs_pages import ROOT, name_of, printed

GENERATED = {"api.md", "architecture.md", "options.md"}
"""From docstrings, imports and help; these are read where they are written."""
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.name not in GENERATED),
]
PACKAGES = ("hardware", "workloads", "planners", "simulator", "experiments")
MOST_MEAN, MOST = 18, 35


def prose(page: str) -> Iterator[str]:
    """Paragraphs and list items of a page; no code, tables, headings, pictures."""
    page = re.sub(r"^ *```.*?^ *```$", "", page, flags=re.MULTILINE | re.DOTALL)
    page = re.sub(r"^(#|\||!\[|    ).*$", "", page, flags=re.MULTILINE)
    page = re.sub(r"^ *([-*]|\d+\.) ", "\n", page, flags=re.MULTILINE)
    page = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", page)
    page = re.sub(r"`[^`]*`", "CODE", page)
    yield from (" ".join(part.split()) for part in re.split(r"\n\s*\n", page) if part.strip())


def sentences(text: str) -> Iterator[str]:
    text = re.sub(r"\b(e\.g|i\.e|et al|vs|Fig|Sec)\.", r"\1", text)
    yield from (part for part in re.split(r"(?<=[.!?])[*)]*\s+", text) if part.strip())


def words(sentence: str) -> int:
    return len(re.findall(r"[^\s()]*\w[^\s()]*", sentence))


def check(texts: list[str], where: str) -> None:
    found = [sentence for text in texts for sentence in sentences(text)]
    counts = [words(sentence) for sentence in found]
    assert found, where
    long = [sentence for sentence, count in zip(found, counts, strict=True) if count > MOST]
    assert not long, f"{where}: more than {MOST} words: {long}"
    assert sum(counts) / len(counts) <= MOST_MEAN, f"{where}: {sum(counts) / len(counts):.1f}"


def test_a_long_sentence_is_found() -> None:
    page = "Short one.\n\n| " + "cell " * 50 + "|\n\n```sh\n" + "word " * 50 + "\n```\n"
    check(list(prose(page)), "short")
    with pytest.raises(AssertionError, match="more than 35"):
        check(list(prose(page + "\n- " + "word " * 36 + "\n")), "long")
    with pytest.raises(AssertionError, match="19"):
        check(list(prose("word " * 18 + "and.\n\n" + "word " * 18 + "and.\n")), "mean")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_pages_are_short_sentences(page: Path) -> None:
    check(list(prose(page.read_text())), name_of(page))


def first_lines(path: Path) -> Iterator[str]:
    """The first paragraph of each public docstring of a file."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            doc = ast.get_docstring(node)
            if doc and not getattr(node, "name", "public").startswith("_"):
                yield " ".join(re.sub(r"``[^`]*``", "CODE", doc.partition("\n\n")[0]).split())


def test_docstrings_begin_with_short_sentences() -> None:
    files = [ROOT / "accelarray.py"]
    files += [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    check([line for path in files for line in first_lines(path)], "docstrings")


def helps(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Every text of a parser's help that is shown."""
    yield parser.description or ""
    for action in parser._actions:
        if action.help and action.help != argparse.SUPPRESS:
            yield re.sub(r"%\(?\w*\)?\w|\S*[=|,]\S*", "CODE", action.help)


def test_help_is_short_sentences() -> None:
    parsers = [whole(), *map(parser_of, COMMANDS)]
    check([text for one in parsers for text in helps(one) if text], "--help")


OUTPUTS = (
    "simulate vgg16 --planner owt --set devices.0.count=2 --set devices.1.count=2",
    "simulate gpt2:layers=2:seq=64 --array tpu-v3-8 --parallel dp=4,tp=2,sp --batch 16",
    "explain gpt2:layers=2:seq=64 --array tpu-v3-8 --parallel dp=2,tp=2,pp=2 --batch 16",
    "compare lenet --planners owt,accpar",
    "fit gpt2:layers=2:seq=64 --array h100-cluster --set nodes=1 --batch 16 --axes tp",
    "speedup --networks lenet",
    "collective all-reduce --bytes 1MB --array tpu-v3-8",
)


def old_words() -> list[str]:
    """The left column of the glossary's table of old words."""
    rows = (ROOT / "docs" / "glossary.md").read_text().partition("| Old word |")[2].splitlines()[2:]
    return [word.strip() for row in rows for word in row.split("|")[1].split(",")]


@pytest.mark.parametrize("command", OUTPUTS, ids=lambda text: text.split()[0])
def test_outputs_have_the_glossarys_terms(command: str) -> None:
    out = " ".join(re.sub(r"[^\x20-\x7e]", " ", printed(f"accelarray {command}")).split())
    assert len(old_words()) > 8
    assert not [word for word in old_words() if re.search(rf"\b{word}\b", out)], out


def test_the_documentation_is_short() -> None:
    pages = [page for page in PAGES if page.name != "CHANGELOG.md"]
    assert sum(words(page.read_text()) for page in pages) <= 25_000

"""What holds for every test: how hypothesis draws, and which tests one process runs."""

import os
import signal
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile(
    "alike", max_examples=40, derandomize=True, database=None, print_blob=True, deadline=None
)
settings.register_profile("new", deadline=None)
settings.load_profile("alike" if "CI" in os.environ else "new")
"""In CI the same examples each time, at home new ones; how long one takes is no test's business."""

signal.signal(signal.SIGINT, signal.default_int_handler)
"""A background job of a shell inherits SIGINT as ignored, and so would the commands under test."""

CORE = (
    "tests/simulator/engine/",
    "tests/simulator/collectives/test_closed_forms.py",
    "tests/simulator/lowering/test_closed_form",
    "tests/simulator/asynchronous/test_closed_forms.py",
)
"""How the paths begin of what runs with ``-m core``; single tests say so by their marks."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With ``-m core`` leave unread what has none of it: reading all files takes 20 seconds."""
    if config.option.markexpr != "core" or not collection_path.name.startswith("test_"):
        return None
    name = collection_path.relative_to(config.rootpath).as_posix()
    return None if name.startswith(CORE) or "mark.core" in collection_path.read_text() else True


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the core; those who share what their module makes once run in one process (with -n)."""
    for item in items:
        if item.nodeid.startswith(CORE) and not item.get_closest_marker("slow"):
            item.add_marker("core")
        info = getattr(item, "_fixtureinfo", None)
        found = info.name2fixturedefs.values() if info else ()
        if any(definition.scope == "module" for made in found for definition in made):
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))


@pytest.fixture(autouse=True)
def _no_lines_of_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is busy writes none between what tests read on stderr."""
    monkeypatch.setattr("experiments.progress.EVERY_S", 3600.0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in one line what was not tried for want of torch."""
    absent = [name for name in ("torch", "torchvision", "transformers") if not find_spec(name)]
    if absent:
        terminalreporter.write_line(
            f"tests that need {', '.join(absent)} were skipped: pip install -e '.[test-torch]'"
        )

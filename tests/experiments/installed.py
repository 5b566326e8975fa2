"""A distribution of somebody else's that announces a planner, installed for one test."""

import importlib
import sys
from pathlib import Path

import pytest

NAME = "outsider"
"""What the planner and its module are called."""


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, code: str, version: str = "1.0") -> None:
    """Metadata with an entry point, and the module ``outsider`` with a function ``plan``."""
    for old in folder.glob("outsider-*.dist-info"):
        for file in old.iterdir():
            file.unlink()
        old.rmdir()
    info = folder / f"outsider-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: outsider\nVersion: {version}\n", encoding="utf-8"
    )
    (info / "entry_points.txt").write_text("[accelarray.planners]\noutsider = outsider:plan\n")
    (folder / "outsider.py").write_text(code)
    if str(folder) not in sys.path:
        monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, NAME, raising=False)
    importlib.invalidate_caches()

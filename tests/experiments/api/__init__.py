"""The public face: a small array, and what the command line says of the same steps."""

import json
from typing import Any

import pytest

from experiments.cli import main

SMALL = ("devices.0.count=2", "devices.1.count=2")
"""``set`` that makes accpar-mixed an array of four boards."""
SET = tuple(word for change in SMALL for word in ("--set", change))


def said(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    """What the command prints."""
    capsys.readouterr()
    assert main(args) == 0
    return capsys.readouterr().out


def values(capsys: pytest.CaptureFixture[str], *args: str) -> Any:
    """What the command prints with ``--format json``."""
    return json.loads(said(capsys, *args, "--format", "json"))


def refusal(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    """The message with which the command refuses."""
    capsys.readouterr()
    assert main(args) == 2
    return capsys.readouterr().err.removeprefix("accelarray: error: ").rstrip("\n")

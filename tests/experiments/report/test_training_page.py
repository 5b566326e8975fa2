"""The page about training runs: whole, self-contained, and with the numbers of the JSON."""

import json
from pathlib import Path

import pytest

from experiments.cli import main
from tests.experiments.pages import Parsed

WORDS = ["train", "lenet", "--array", "ring-8", "--workers", "8", "--iterations", "6"]
WORDS += ["--compare", "all-reduce,prague:filter=2", "--slowdown", "worker:0:5"]


def test_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "train.html"
    words = [*WORDS, "--learn", "logistic", "--report", str(path), "--format", "json"]
    assert main(words) == 0
    wanted = json.loads(capsys.readouterr().out)["methods"]
    text = path.read_text(encoding="utf-8")
    parsed = Parsed(text)
    assert parsed.open == []
    exact = parsed.exact["Methods on the same draws"][1:]
    assert [row[1] for row in exact] == [one["iterations_per_s"] for one in wanted]
    assert [row[2] for row in exact] == [min(one["workers"]) for one in wanted]
    assert [row[3] for row in exact] == [one["time_s"] for one in wanted]
    assert [row[6] for row in exact] == [one["learning"]["loss"] for one in wanted]
    spent = parsed.exact["Seconds of all workers together"][1:]
    assert [row[1] for row in spent] == [one["computing_s"] for one in wanted]
    notes = " ".join(parsed.text("p"))
    assert "prague:filter=2, as recalled:" in notes
    assert "not the network that is timed" in notes
    assert text.count("<svg") == 2
    assert f"--report {path}" in text
    assert "all-reduce, prague:filter=2 for lenet, 8 workers on ring-8" in text
    assert main(words) == 0
    assert path.read_text(encoding="utf-8") == text


def test_a_hang_is_on_the_page(tmp_path: Path) -> None:
    path = tmp_path / "hang.html"
    words = [*WORDS[:8], "--method", "ps", "--slowdown", "die:3:1e-5", "--report", str(path)]
    assert main(words) == 0
    assert "worker 3 had died" in path.read_text(encoding="utf-8")


def test_names_are_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, "--report", str(tmp_path / "x.pdf")]) == 2
    assert "the name must end in .html" in capsys.readouterr().err


def test_learning_that_diverges_at_once_has_no_line(tmp_path: Path) -> None:
    path = tmp_path / "train.html"
    assert main([*WORDS, "--learn", "quadratic", "--rate", "1e200", "--report", str(path)]) == 0
    text = path.read_text(encoding="utf-8")
    assert text.count("<svg") == 1
    assert "learning diverged" in text

"""``reproduce ripples`` and ``reproduce hop``: what they compare, and what they say."""

import itertools
import json
from pathlib import Path

import pytest

from experiments.cli import main
from experiments.papers import hop, ripples
from experiments.papers.figure import Figure


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few iterations of what takes half a minute."""
    monkeypatch.setattr(ripples, "ITERATIONS", 30)
    monkeypatch.setattr(ripples, "LOSS", 0.4)
    monkeypatch.setattr(hop, "ITERATIONS", 30)
    monkeypatch.setattr(hop, "GRAPHS", ("ring-based",))
    for module in (ripples, hop):
        module.trained.cache_clear()


def test_cifars_vgg16() -> None:
    """Simonyan and Zisserman's 13 convolutions have 14.7 million weights; then 512 x 10."""
    network = ripples.vgg16_cifar()
    channels = [3, 64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512]
    pairs = itertools.pairwise(channels)
    assert network.weights == sum(9 * a * b for a, b in pairs) + 5120


def test_ripples(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["reproduce", "ripples", "--format", "json", "--plot", str(tmp_path)]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found["figures"]) == ["ripples", "prague", "speed"]
    published = {row["over"]: row["published"] for row in found["figures"]["ripples"]}
    assert published["all-reduce, alike"] == 1.1
    assert published["ps, one 5x slow"] == published["ps, one 2x slow"] == 3
    assert published["ad-psgd, one 2x slow"] is None
    ours = {(row["over"], row["planner"]): row["ours"] for row in found["figures"]["prague"]}
    assert ours["ps, alike", "resnet50"] > 3
    assert ours["all-reduce, one 5x slow", "resnet50"] > ours["all-reduce, alike", "resnet50"]
    speeds = {(row["method"], row["planner"]): row["ours"] for row in found["figures"]["speed"]}
    slowed = speeds["all-reduce, one 5x slow", "resnet50"] / speeds["all-reduce, alike", "resnet50"]
    assert 0.2 < slowed < 0.3
    assert any("Nothing is fitted" in said for said in found["notes"]["ripples"])
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "ripples-prague.png",
        "ripples-ripples.png",
        "ripples-speed.png",
    ]


def value(figure: Figure, variant: str) -> float:
    return float(next(row["ours"] for row in figure.rows if row["planner"] == variant))


def test_hop_shows_its_claims() -> None:
    alike, random, slow, gaps = (asked().made() for key, asked in hop.FIGURES.items())
    assert value(alike, "standard") == 1
    assert value(random, "staleness") > 1.15 * value(random, "standard")
    assert value(slow, "standard") == pytest.approx(0.25, abs=0.02)
    assert value(slow, "backup") < 1.5 * value(slow, "standard")
    assert value(slow, "skipping") > 2 * value(slow, "standard")
    assert value(gaps, "notify-ack") <= value(gaps, "standard") <= value(gaps, "backup")
    assert "No published number is at hand" in slow.messages[0]

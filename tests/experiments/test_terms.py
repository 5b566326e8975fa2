"""The field's terms: durations, names of operations, keys with their aliases."""

import json
import math
from collections.abc import Iterator
from typing import Any

import pytest

from experiments.cli import main
from experiments.terms import ALIASES, aliased, change, duration, operation_name
from planners.order import Kind, Phase

STEP = ("gpt3-125m:layers=2:seq=128", "--array", "tpu-v3-8", "--batch", "16")
AXES = (*STEP, "--parallel", "dp=2,pp=2,tp=2", "--micro-batch", "2")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.488706507, "488.7 ms"),
        (1.620070342, "1.620 s"),
        (0.99996, "1.000 s"),
        (0.999949, "999.9 ms"),
        (12.3456, "12.35 s"),
        (1234.5, "1,234 s"),
        (1e-6, "1.000 us"),
        (2.5e-9, "2.500 ns"),
        (0.0, "0 s"),
        (math.nan, "nan s"),
        (-0.0123, "-12.30 ms"),
    ],
)
def test_durations_have_four_digits(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_a_change_has_its_sign() -> None:
    assert (change(0.1), change(-0.1), change(0.0)) == ("+100.0 ms", "-100.0 ms", "0 s")


def test_old_keys_stay_beside_the_new_ones() -> None:
    assert aliased({"a": 1, "share_of_peak": 2}) == {"a": 1, "mfu": 2, "share_of_peak": 2}
    assert len(set(ALIASES.values())) == len(ALIASES)


def test_operations_have_the_fields_names() -> None:
    assert operation_name(Phase.FORWARD, Kind.COMPUTE) == "compute, forward"
    assert operation_name(Phase.GRADIENT, Kind.SUMS) == "all-reduce of weight gradients"
    named = operation_name(Phase.BACKWARD, Kind.BOUNDARY, ["all-to-all"], "ep")
    assert named == "all-to-all of activation gradients, ep"
    for phase in Phase:
        for kind in Kind:
            name = operation_name(phase, kind)
            assert not any(old in name for old in ("boundary", "partial sums"))


@pytest.mark.parametrize("command", ["simulate", "explain"])
def test_json_has_both_keys(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, *AXES, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    wanted = ALIASES.items()
    if command == "explain":
        shares = ("exposed_communication", "waiting_for_communication")
        wanted = {new: old for new, old in ALIASES.items() if new not in shares}.items()
    for new, old in wanted:
        assert found[new] == found[old]
    assert 0 < found["mfu"] < 1
    each = found["model_tflops_per_s_per_device"] / found["hardware_tflops_per_s_per_device"]
    assert each == pytest.approx(found["mfu"] / found["hfu"])


SMALL = ("--networks", "lenet", "--array", "tpu-v3-8", "--batch", "64", "--jobs", "1")
NODE = ("--array", "h100-cluster", "--set", "nodes=1")
TRAIN = ("papers", "train", "lenet", "--workers", "2", "--iterations", "4")


@pytest.mark.parametrize(
    ("words", "old"),
    [
        (("speedup", *SMALL, "--planners", "owt"), {"share_of_peak"}),
        (("speedup", *SMALL, "--planners", "owt", "--levels", "1"), {"share_of_peak"}),
        (
            ("sweep", *SMALL, "--planners", "owt", "--vary", "batch=32,64"),
            {"share_of_peak", "communicating", "waiting"},
        ),
        (
            ("fit", "gpt2:layers=2:seq=64", *NODE, "--batch", "8", "--axes", "tp", "--jobs", "1"),
            {"share_of_peak"},
        ),
        (TRAIN, {"waiting"}),
        ((*TRAIN, "--vary", "batch=8,16"), {"waiting"}),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, tuple) else "old",
)
def test_rows_of_json_and_csv_have_both_keys(
    words: tuple[str, ...], old: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    def rows(value: Any) -> Iterator[dict[str, Any]]:
        """Every object that is somewhere in JSON."""
        if isinstance(value, dict):
            yield value
        for one in value if isinstance(value, list) else value.values() if value else ():
            if isinstance(one, list | dict):
                yield from rows(one)

    assert main([*words, "--format", "json"]) == 0
    found = list(rows(json.loads(capsys.readouterr().out)))
    for new, key in ALIASES.items():
        having = [row for row in found if key in row]
        assert bool(having) == (key in old), key
        assert all(row[new] == row[key] for row in having)
    if words[0] in ("sweep", "fit"):
        assert main([*words, "--format", "csv"]) == 0
        head = capsys.readouterr().out.splitlines()[0].split(",")
        assert {"mfu", "share_of_peak"} <= {*head}


def test_a_reduce_scatter_is_told_from_an_all_reduce(capsys: pytest.CaptureFixture[str]) -> None:
    names = []
    for update in ("replicated", "sharded"):
        assert main(["simulate", *AXES, "--update", update, "--format", "json"]) == 0
        found = json.loads(capsys.readouterr().out)["phases"]
        names.append({row["operation"] for row in found})
    assert "all-reduce of weight gradients, dp" in names[0]
    assert {"reduce-scatter of weight gradients, dp", "all-gather of weights, dp"} <= names[1]

import json
from pathlib import Path
from typing import Any

import pytest

from experiments.cli import main
from experiments.collective import COLLECTIVES
from experiments.terms import duration
from simulator import COLLECTIVES as THE_ENGINES


def run(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert main(["collective", *args]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def as_json(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, Any]:
    result = json.loads(run(capsys, *args, "--format", "json"))
    assert isinstance(result, dict)
    return result


def test_the_ring_example(capsys: pytest.CaptureFixture[str]) -> None:
    args = ("all-reduce", "--bytes", "100000000", "--array", "ring-8")
    out = as_json(capsys, *args)
    assert out["time_s"] == pytest.approx(3_259_635e-9, rel=1e-4)
    assert out["time_s"] == pytest.approx(out["closed_form_s"], rel=1e-6)
    assert (out["algorithm"], out["collective"], out["bytes"]) == ("ring", "all-reduce", 1e8)
    assert (out["nodes"], out["joins"], out["topology"]) == (8, "boards", "ring")
    assert out["bytes_per_link"] == {f"board{i} +x": 1.75e8 for i in range(8)}
    assert out["phases"] == [{"steps": 14, "time_s": out["time_s"]}]
    slower = as_json(capsys, *args, "--set", "topology.latency=500 ns")
    assert slower["time_s"] - out["time_s"] == pytest.approx(14 * 500e-9)


def test_bytes_are_numbers_or_quantities(capsys: pytest.CaptureFixture[str]) -> None:
    times = [
        as_json(capsys, "all-gather", "--bytes", size, "--array", "tpu-v2-8")["time_s"]
        for size in ("1000000", "1 MB", "8 Mbit")
    ]
    assert len(set(times)) == 1


def test_chips_are_the_nodes_where_chips_are_joined(capsys: pytest.CaptureFixture[str]) -> None:
    out = as_json(capsys, "all-reduce", "--bytes", "1 MB", "--array", "tpu-v2-pod")
    assert (out["nodes"], out["joins"], out["algorithm"]) == (256, "chips", "torus")
    assert len(out["bytes_per_link"]) == 1024
    assert out["closed_form_s"] == pytest.approx(out["time_s"], rel=1e-6)


def test_algorithms_by_name_and_none_without_a_closed_form(
    capsys: pytest.CaptureFixture[str],
) -> None:
    args = ("all-reduce", "--bytes", "1 MB", "--array", "accpar-homogeneous")
    out = as_json(capsys, *args, "--algorithm", "recursive-doubling")
    assert out["closed_form_s"] == pytest.approx(7 * 1e6 / 2e9)
    bus = as_json(capsys, *args, "--set", "topology.kind=bus")
    assert bus["closed_form_s"] is None
    assert list(bus["bytes_per_link"]) == ["board bus"]
    assert bus["time_s"] == pytest.approx(2 * 127 * 1e6 / 2e9)


def test_the_table_says_the_same(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    args = ("all-reduce", "--bytes", "1 MB", "--array", "tpu-v2-pod")
    out = as_json(capsys, *args)
    table = run(capsys, *args)
    assert duration(out["time_s"]) in table
    assert f"{out['busbw_gb_per_s']:.4g} GB/s" in table
    for one in out["algorithms"]:
        assert f"│ {one['algorithm']} " in table
    assert "256 chips, torus" in table
    assert "and 1,016 more links" in table
    assert "none that is exact here" in run(capsys, *args, "--algorithm", "direct")
    target = tmp_path / "out.txt"
    assert run(capsys, *args, "--output", str(target)) == ""
    assert target.read_text() == table


def test_the_commands_collectives_are_the_engines() -> None:
    assert COLLECTIVES == THE_ENGINES


def test_a_collective_that_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["collective", "all-reduces", "--bytes", "1"])
    assert "COLLECTIVE all-reduces: did you mean all-reduce?" in capsys.readouterr().err


def test_a_named_algorithm_leaves_all_to_alls_as_they_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    args = ["simulate", "alexnet", "--planner", "accpar", "--array", "tpu-v2-8"]
    args += ["--execution", "deployed", "--algorithm"]
    times = []
    for name in ("auto", "ring"):
        assert main([*args, name, "--format", "json"]) == 0
        times.append(json.loads(capsys.readouterr().out)["iteration_s"])
    assert times[0] < times[1]
    assert main([*args, "torus"]) == 2
    assert "of 4 members use auto, or ring, " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "factor"),
    [
        ("all-reduce", 2 * 7 / 8),
        ("all-gather", 7 / 8),
        ("reduce-scatter", 7 / 8),
        ("all-to-all", 7 / 8),
        ("broadcast", 1.0),
    ],
)
def test_bandwidths_are_those_of_nccl_tests(
    name: str, factor: float, capsys: pytest.CaptureFixture[str]
) -> None:
    out = as_json(capsys, name, "--bytes", "1 GB", "--array", "dgx-h100")
    assert out["algbw_gb_per_s"] == pytest.approx(1.0 / out["time_s"])
    assert out["busbw_gb_per_s"] == pytest.approx(factor * out["algbw_gb_per_s"])


def test_all_algorithms_stand_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    args = ("all-reduce", "--bytes", "1 GB", "--array", "h100-cluster")
    every = as_json(capsys, *args)["algorithms"]
    times = [one["time_s"] for one in every]
    assert times == sorted(times)
    chosen = [one["algorithm"] for one in every if one["chosen"]]
    assert chosen == ["nccl-rings"], "what the stack's library has, not the fastest"
    for one in every:
        name = "auto" if one["chosen"] else one["algorithm"]
        named = as_json(capsys, *args, "--algorithm", name)
        assert named["time_s"] == pytest.approx(one["time_s"], rel=1e-9)


@pytest.mark.parametrize("array", ["dgx-h100", "h100-cluster"])
def test_bytes_of_links_are_those_that_move(array: str, capsys: pytest.CaptureFixture[str]) -> None:
    """NVLink SHARP moves S (1 + 1/n) a port, rings over 32 chips twice 31/32 of S."""
    args = ("all-reduce", "--bytes", "1 GB", "--array", array)
    out = as_json(capsys, *args)
    shares = {"in-switch": 9 / 8, "nccl-rings": 2 * 31 / 32}
    share = shares[out["algorithm"]]
    assert out["bytes_per_link"]["chip0 up"] == pytest.approx(share * 1e9)


def test_the_picture_of_busbw(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    plot = tmp_path / "busbw.svg"
    args = ("all-reduce", "--bytes", "1 GB", "--array", "h100-cluster", "--plot", str(plot))
    out = as_json(capsys, *args, "--algorithm", "ring")
    drawn, every = plot.read_text(), [one["algorithm"] for one in out["algorithms"]]
    assert "busbw [GB/s]" in drawn
    assert "nccl-rings" in every
    assert all(name in drawn for name in every)


def test_a_stack_with_nccl_says_why_tiers_are_not_chosen(
    capsys: pytest.CaptureFixture[str],
) -> None:
    args = ("all-reduce", "--bytes", "4 GB", "--array", "a100-cluster", "--set", "nodes=4")
    table = run(capsys, *args, "--set", "stack=nemo-2024")
    assert "│ nccl-rings (chosen) " in table
    assert "it does not work tier by tier" in table
    assert "tier by tier" not in run(capsys, *args, "--algorithm", "hierarchical")


def test_auto_with_nccls_steps_stands_beside_what_links_say(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With one GPU a node NCCL has no tiers to choose from, but takes its steps: 7 of 14 us."""
    ask = ("all-gather", "--bytes", "1MB", "--array", "h100-cluster")
    alone = ("--set", "nodes=8", "--set", "devices.0.count=1")
    found = as_json(capsys, *ask, *alone)
    times = {one["algorithm"]: one["time_s"] for one in found["algorithms"]}
    (chosen,) = [one for one in found["algorithms"] if one["chosen"]]
    assert found["algorithm"] == chosen["algorithm"] == "direct, NCCL's steps"
    assert found["time_s"] == chosen["time_s"] == pytest.approx(times["direct"] + 7 * 14e-6 - 1e-5)
    assert found["closed_form_s"] is None
    named = as_json(capsys, *ask, *alone, "--algorithm", "direct")
    assert (named["algorithm"], named["time_s"]) == ("direct", times["direct"])


def test_what_only_a_name_asks_for_stands_among_all(capsys: pytest.CaptureFixture[str]) -> None:
    ask = ("broadcast", "--bytes", "1MB", "--array", "tpu-v3-8", "--algorithm", "multicast")
    found = as_json(capsys, *ask)
    (chosen,) = [one for one in found["algorithms"] if one["chosen"]]
    assert (chosen["algorithm"], chosen["time_s"]) == ("multicast", found["time_s"])

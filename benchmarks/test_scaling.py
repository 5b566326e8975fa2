"""What a step costs as arrays, networks and hierarchies grow."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.test_engine import bare_timeouts, seconds
from hardware import Array, load_array
from planners import load_planner
from simulator import simulate
from workloads import FURTHER, Builder, Network, load_network

SIZES = (256, 1024, 4096, 16_384, 65_536)
DEPTHS = (8, 32, 128, 512)


def homogeneous(boards: int) -> Array:
    return load_array("accpar-homogeneous", [f"devices.0.count={boards}"])


def chain(depth: int) -> Network:
    net = Builder(f"chain{depth}", 64, 28, 28)
    for i in range(depth):
        net.conv(f"conv{i}", 64, 3, 1, 1)
    return net.build()


def step(network: Network, array: Array) -> int:
    plan = load_planner("accpar")(network, array, 512)
    return simulate(network, plan, array).iteration_ps


@pytest.mark.parametrize("boards", SIZES)
def test_vgg19_by_number_of_boards(benchmark: BenchmarkFixture, boards: int) -> None:
    """Planning, lowering and running; levels are log2 of the boards."""
    benchmark(step, load_network("vgg19"), homogeneous(boards))


@pytest.mark.parametrize("depth", DEPTHS)
def test_chains_by_number_of_layers(benchmark: BenchmarkFixture, depth: int) -> None:
    benchmark(step, chain(depth), load_array("accpar-mixed"))


@pytest.mark.parametrize("planner", ["data_parallel", "owt", "hypar", "accpar"])
def test_planning_resnet50_on_the_mixed_array(benchmark: BenchmarkFixture, planner: str) -> None:
    benchmark(load_planner(planner), load_network("resnet50"), load_array("accpar-mixed"), 512)


@pytest.mark.parametrize("name", FURTHER)
def test_planning_accpar_on_the_mixed_array(benchmark: BenchmarkFixture, name: str) -> None:
    network, array = load_network(name), load_array("accpar-mixed")
    benchmark.pedantic(load_planner("accpar"), (network, array, 512), rounds=3)  # type: ignore[no-untyped-call]


WITH_PEAK = """
import re, sys
from pathlib import Path
from experiments.cli import main
try:
    main()
finally:
    sys.stderr.write(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
"""

DEPLOYED = ("--execution", "deployed")
VGG16 = ("simulate", "vgg16", "--planner", "accpar", *DEPLOYED, "--array")
LLAMA = (
    *("simulate", "llama3-405b", "--batch", "16384", *DEPLOYED),
    *("--array", "tpu-v3-pod", "--set", "devices.0.count=2048"),
)


def boards(count: int) -> tuple[str, str]:
    """So many boards of an array of one kind."""
    return "--set", f"devices.0.count={count}"


COMMANDS = {
    "help": ("--help",),
    "lenet": ("simulate", "lenet", "--planner", "accpar"),
    "vgg19 on 65,536 boards": (
        *("simulate", "vgg19", "--planner", "accpar", "--array", "accpar-homogeneous"),
        *("--set", "devices.0.count=65536"),
    ),
    "speedup": ("speedup",),
    "speedup unfolded": ("speedup", "--unfolded"),
    "speedup deployed": ("speedup", *DEPLOYED),
    "vgg16 deployed on 65,536 boards": (*VGG16, "accpar-homogeneous", *boards(65_536)),
    "vgg16 deployed on a torus of 8,192 chips": (*VGG16, "tpu-v3-pod", *boards(2048)),
    "vgg16 deployed, 2,048 boards joined by pairs": (
        *(*VGG16, "accpar-homogeneous", *boards(2048)),
        *("--set", "topology.kind=fully_connected"),
    ),
    "llama3-405b deployed on 16,384 cores, data parallel": (*LLAMA, "--planner", "data_parallel"),
    "llama3-405b deployed on 16,384 cores, accpar": (*LLAMA, "--planner", "accpar"),
    "100 deployed cases of a sweep": (
        *("sweep", "--networks", "vgg16", *DEPLOYED, "--vary"),
        "network.bandwidth=1 Gbit/s:1 Tbit/s:log:25",
    ),
    "explain deployed": ("explain", "resnet50", "--planner", "accpar", *DEPLOYED),
    "report deployed": ("report", *DEPLOYED, "--output", "report.html"),
    "speedup of 2 to 65,536 boards": ("speedup", "--levels", "2-16"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_whole_commands(benchmark: BenchmarkFixture, name: str, tmp_path: Path) -> None:
    """Start-up included; the peak memory is read at the end of the command (Linux).

    A shared machine is not always as fast: beside seconds stand bare SimPy
    timeouts in whose time the command is done, taken in the same minute.
    """
    peaks: list[int] = []
    bare_s = min(seconds(bare_timeouts(1024, 100)) for _ in range(3)) / 102_400

    def run() -> None:
        command = [sys.executable, "-c", WITH_PEAK, *COMMANDS[name]]
        ran = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path)  # noqa: S603
        peaks.append(int(ran.stderr.splitlines()[-1]))  # behind what it may have warned of

    benchmark.pedantic(run, rounds=3)  # type: ignore[no-untyped-call]
    benchmark.extra_info["peak memory MB"] = round(max(peaks) / 1024)
    least_s = benchmark.stats.stats.min  # type: ignore[union-attr]
    benchmark.extra_info["million timeouts"] = round(least_s / bare_s / 1e6, 2)


def test_65536_boards_cost_less_than_three_times_256() -> None:
    network = load_network("vgg19")

    def taken_s(boards: int) -> float:
        array = homogeneous(boards)
        started = time.perf_counter()
        step(network, array)
        return time.perf_counter() - started

    small, large = (min(taken_s(boards) for _ in range(10)) for boards in (256, 65_536))
    print(f"\n256 boards {small * 1e3:.1f} ms, 65,536 boards {large * 1e3:.1f} ms")
    assert large < 3 * small

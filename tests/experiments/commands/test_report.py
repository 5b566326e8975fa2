"""``accelarray report``: what it is asked for, and the command that the page repeats."""

import shlex
from pathlib import Path

import pytest

from experiments.api.studies import ARRAYS, DRAWN, MAPPED
from experiments.api.studies import report as make
from experiments.cli import main, parser_of, typed_again
from experiments.commands.resolve import keywords_of
from experiments.report.study import Study
from hardware import load_array
from simulator import Execution
from workloads import ZOO


def study(text: str) -> Study:
    args = parser_of("report").parse_args(shlex.split(f"--output p.html {text}"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("experiments.api.studies.page_of", lambda *_: "")
        return make(**keywords_of(args, make)).study


def test_the_papers_two_arrays_unless_one_is_named_or_changed() -> None:
    assert tuple(array.name for array in study("").arrays) == ARRAYS
    (one,) = study("--array tpu-v3-8").arrays
    assert one == load_array("tpu-v3-8")
    (changed,) = study("--set devices.0.count=4").arrays
    assert changed.name == "accpar-mixed, devices.0.count=4"
    assert changed.group.kinds[0][1] == 4


def test_whose_plans_and_step_are_shown() -> None:
    both = study("")
    assert [network.name for network in both.networks] == list(ZOO)
    assert (both.mapped.name, both.drawn.name, both.drawn_planner) == (MAPPED, DRAWN, "accpar")
    few = study("--networks lenet,vgg11 --planners owt,hypar")
    assert (few.mapped.name, few.drawn.name, few.drawn_planner) == ("lenet", "vgg11", "hypar")
    wanted = study("--networks lenet --timeline alexnet")
    assert (wanted.mapped.name, wanted.drawn.name) == ("alexnet", "alexnet")


def test_conditions() -> None:
    asked = study("--array hypar-16 --batch 64 --metrics time,energy --execution deployed")
    assert asked.batch == 64
    assert asked.metrics == ("time", "energy")
    assert asked.execution == Execution("deployed")
    assert asked.rows is None


COMMANDS = [
    "--output page.html",
    "--array tpu-v3-8 --networks lenet --planners owt,accpar --batch 8 --output page.html",
    "--set 'network.bandwidth=100 Gbit/s' --set devices.0.count=4 --output 'my page.html'",
    "--execution deployed --overlap none --shards exact --bucket '25 MB' --algorithm ring "
    "--strict-memory --metrics time,traffic --output page.html",
    "--store 's $x.db' --timeline 'gpt2:seq=8' --output page.html",
    "--store s.db --jobs=3 --cluster tcp://h:1 --output page.html",
    "--array tpu-v3-8 --networks gpt2:layers=2:seq=16 --planners axes --parallel dp=2,pp=2,tp=2 "
    "--micro-batch 2 --axis-order tp,dp,pp --update sharded --recompute full --transform apart "
    "--attention fused --output page.html",
    "--array tpu-v3-8 --networks vgg11 --stages 2 --micro-batches 4 --schedule gpipe --zero 1 "
    "--output page.html",
]


@pytest.mark.parametrize("text", COMMANDS)
def test_the_pages_command_asks_for_the_same_page(text: str) -> None:
    """What decides the page; where it was computed does not."""
    words = ["report", *shlex.split(text)]
    parser, (_, *typed) = parser_of("report"), shlex.split(typed_again(words))
    args, again = parser.parse_args(words[1:]), parser.parse_args(typed[1:])
    args.jobs = args.cluster = None
    assert vars(again) == vars(args)


def test_metrics_without_joules_are_empty_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from experiments.studies.case import Case
    from experiments.studies.running import runner
    from experiments.studies.running.outputs import Outputs, run_case
    from tests.experiments.pages import Parsed

    def without(case: Case) -> Outputs:
        return run_case(case) | {"energy_j": 0.0}

    monkeypatch.setattr(runner, "run_case", without)
    page = tmp_path / "p.html"
    args = ["report", "--array", "hypar-16", "--networks", "hypar-lenet-c", "--batch", "64"]
    assert main([*args, "--metrics", "energy", "--output", str(page)]) == 0
    tables = Parsed(page.read_text()).tables
    (name,) = [name for name in tables if name.startswith("Energy efficiency over data")]
    assert tables[name][1] == ["hypar-lenet-c", "0", "-", "-", "-"]

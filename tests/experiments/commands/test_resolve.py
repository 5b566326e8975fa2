"""What parsed arguments describe."""

import argparse
from dataclasses import replace

import pytest

from experiments.api.inputs import names, network_of
from experiments.api.requests import running
from experiments.cli import parse, parser_of
from experiments.commands.resolve import case_of, cases_of, study_of
from experiments.notices import MOST, warnings_on_stderr
from experiments.output import UsageError
from experiments.studies.case import Case
from experiments.studies.running.outputs import check_kept
from experiments.studies.running.store import StoreError
from hardware import load_array
from planners import PlanError
from simulator import DEPLOYED, PUBLISHED
from workloads import ZOO, load_network

RUNNERS = ("speedup", "sweep --vary batch=1", "report --output x.html")


def parsed(text: str) -> argparse.Namespace:
    name, *words = text.split()
    return parser_of(name).parse_args(words)


def test_a_step_as_a_case() -> None:
    assert case_of(parsed("simulate lenet --planner owt")) == Case(
        load_network("lenet"), "owt", load_array("accpar-mixed"), 512
    )
    text = "simulate vgg11 --planner accpar --array tpu-v3-8 --batch 64 --objective traffic "
    text += "--communication plotted --execution deployed --overlap none --unfolded"
    case = case_of(parsed(text))
    assert (case.network.name, case.planner, case.array.name) == ("vgg11", "accpar", "tpu-v3-8")
    assert (case.batch, case.objective, case.communication) == (64, "traffic", "plotted")
    assert case.execution == replace(DEPLOYED, overlap=False)
    assert not case.folded


def test_a_command_that_names_two_planners_says_which() -> None:
    args = parsed("compare lenet --planners owt,accpar")
    assert [case.planner for case in cases_of(args, ["accpar", "owt"])] == ["accpar", "owt"]


def test_unknown_names_are_refused_before_anything_is_read() -> None:
    with pytest.raises(PlanError, match="did you mean accpar"):
        case_of(parsed("simulate no.onnx --planner acpar"))
    with pytest.raises(PlanError, match="unknown planner 'x'"):
        study_of(parsed("speedup --planners owt,x"))


def test_arrays_and_their_changes() -> None:
    args = parsed("simulate lenet --planner owt --array ring-8 --set topology.latency=1us")
    args.set = ["topology.latency=1 us"]
    assert case_of(args).array.topology.latency_s == 1e-6
    args = parsed("report --output x.html")
    assert args.array is None
    assert study_of(args).conditions.array.name == "accpar-mixed"


def test_networks_and_planners_of_a_comparison() -> None:
    args = parsed("speedup")
    assert [network.name for network in study_of(args).networks] == list(ZOO)
    assert study_of(args).planners[:4] == ("data_parallel", "owt", "hypar", "accpar")
    args = parsed("speedup --networks vgg11,lenet --planners accpar,owt,accpar")
    assert [network.name for network in study_of(args).networks] == ["vgg11", "lenet"]
    assert study_of(args).planners == ("accpar", "owt")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a", ["a"]),
        (" b , a,b", ["b", "a"]),
        ("all", ["a", "b"]),
        ("b,all", ["b", "a"]),
        ("c,all", ["c", "a", "b"]),
    ],
)
def test_lists_of_names(text: str, found: list[str]) -> None:
    assert names(text, ["a", "b"], "things") == found


@pytest.mark.parametrize("text", ["", ",", " , "])
def test_empty_lists_of_names(text: str) -> None:
    with pytest.raises(UsageError, match=r"--things .*: name at least one of a, b, or all"):
        names(text, ["a", "b"], "things")


def test_execution_models() -> None:
    step = "simulate lenet --planner owt"
    assert case_of(parsed(step)).execution == PUBLISHED
    assert case_of(parsed(f"{step} --execution deployed")).execution == DEPLOYED
    strict = case_of(parsed(f"{step} --execution deployed --strict-memory --shards exact"))
    assert strict.execution == replace(DEPLOYED, strict_memory=True, whole_shards=False)


@pytest.mark.parametrize(
    "option", ["--overlap full", "--shards whole", "--algorithm ring", "--strict-memory"]
)
def test_options_of_the_other_model(option: str) -> None:
    name = option.split()[0].removeprefix("--")
    with pytest.raises(UsageError, match=f"{name}.* has no meaning under the published execution"):
        case_of(parsed(f"simulate lenet --planner owt {option}"))


@pytest.mark.parametrize("command", RUNNERS)
def test_where_cases_run_is_said_alike_by_every_command(command: str) -> None:
    args = parsed(f"{command} --jobs 3 --cluster tcp://h:1")
    with running(study_of(args).options, 1) as (runner, _, _):
        assert (runner.store, runner.jobs, runner.cluster) == (None, 3, "tcp://h:1")
    with running(study_of(parsed(command)).options, 1) as (runner, _, _):
        assert (runner.store, runner.jobs, runner.cluster) == (None, None, None)
    with pytest.raises(UsageError, match="--jobs 0: must be at least 1"):
        running(study_of(parsed(f"{command} --jobs 0")).options, 1).__enter__()


def test_every_command_describes_it_in_the_same_words(capsys: pytest.CaptureFixture[str]) -> None:
    said = []
    for command in ("speedup", "sweep", "report"):
        with pytest.raises(SystemExit):
            parsed(f"{command} --help")
        text = " ".join(capsys.readouterr().out.split())
        start = text.index("--store FILE")
        said.append(text[start : text.index("--jobs", start)])
    assert said[0] == said[1] == said[2]
    assert "keep finished cases in FILE and run only missing ones" in said[0]


@pytest.mark.parametrize("command", RUNNERS)
def test_a_store_is_open_while_it_is_used(
    command: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("store") / "s.db"
    args = parsed(command)
    args.store = str(file)
    with running(study_of(args).options, 1) as (runner, _, _):
        assert runner.store is not None
        runner.store.put("k", {}, {"iteration_s": 1.0})
    with pytest.raises(StoreError, match="closed"):
        runner.store.get(["k"], check_kept)


def test_what_a_file_holds_unread_is_warned_of(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = tuple(f"node {i} is not understood" for i in range(13))
    odd = replace(load_network("lenet"), notes=notes)
    monkeypatch.setattr("experiments.api.inputs.load_network", lambda name: odd)
    with warnings_on_stderr():
        assert network_of("odd.onnx") is odd
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "accelarray: warning: lenet: node 0 is not understood"
    assert len(lines) == MOST + 1
    assert lines[-1] == "accelarray: warning: lenet: and 3 more"


def test_spaces_around_an_options_equals_sign_are_none() -> None:
    words = ["simulate", "lenet", "--planner", "hypar", "--set", "batch = 8"]
    assert parse(words).batch == 8


@pytest.mark.parametrize("words", [["--config", "-"], ["--config=-x.toml"]])
def test_a_config_that_begins_with_a_dash_is_a_file(words: list[str]) -> None:
    with pytest.raises(UsageError, match=r"^-.*: "):
        parse(["simulate", "lenet", "--planner", "hypar", *words])

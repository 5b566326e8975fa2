"""What makes no sense is refused with the command line's words, before anything runs."""

from collections.abc import Callable
from typing import Any

import pytest

import accelarray
from accelarray import NetworkError, PlanError, SpecError, UsageError
from tests.experiments.api import SMALL, refusal

ARRAY = accelarray.array("accpar-mixed", set=SMALL)
LENET = accelarray.network("lenet")
PLAN = accelarray.plan("lenet", "accpar", ARRAY, 64).plan


def simulate(*args: Any, **kwargs: Any) -> Callable[[], object]:
    return lambda: accelarray.simulate(*args, **kwargs)


def sweep(*args: Any, **kwargs: Any) -> Callable[[], object]:
    return lambda: accelarray.sweep(*args, **kwargs)


STEP = ("simulate", "lenet", "--planner", "accpar")


@pytest.mark.parametrize(
    ("call", "error", "command"),
    [
        (simulate("lenett", "accpar"), NetworkError, ("simulate", "lenett", *STEP[2:])),
        (simulate("lenet", "acpar"), PlanError, (*STEP[:3], "acpar")),
        (simulate("lenet", "accpar", "accpar-mixt"), SpecError, (*STEP, "--array", "accpar-mixt")),
        (simulate("lenet", "accpar", batch=0), PlanError, (*STEP, "--batch", "0")),
        (simulate("none.onnx", "accpar"), NetworkError, ("simulate", "none.onnx", *STEP[2:])),
        (
            simulate("lenet", "accpar", set="devices.0.count=-1"),
            SpecError,
            (*STEP, "--set", "devices.0.count=-1"),
        ),
        (
            simulate("lenet", "accpar", execution="deployed", bucket="2.5"),
            UsageError,
            (*STEP, "--execution", "deployed", "--bucket", "2.5"),
        ),
        (
            lambda: accelarray.compare("lenet", metrics="power"),
            UsageError,
            ("speedup", "--networks", "lenet", "--metrics", "power"),
        ),
        (
            lambda: accelarray.compare("lenet", metrics="energy"),
            UsageError,
            ("speedup", "--networks", "lenet", "--metrics", "energy"),
        ),
        (
            lambda: accelarray.compare("lenet", jobs=0),
            UsageError,
            ("speedup", "--networks", "lenet", "--jobs", "0"),
        ),
        (
            lambda: accelarray.scale("lenet", levels="3-2"),
            UsageError,
            ("speedup", "--networks", "lenet", "--levels", "3-2"),
        ),
        (sweep("batch"), UsageError, ("sweep", "--vary", "batch")),
        (
            sweep(["batch=1,2", "batch=3"]),
            UsageError,
            ("sweep", "--vary", "batch=1,2", "--vary", "batch=3"),
        ),
    ],
)
def test_errors_are_those_of_the_command(
    capsys: pytest.CaptureFixture[str],
    call: Callable[[], object],
    error: type[Exception],
    command: tuple[str, ...],
) -> None:
    with pytest.raises(error) as raised:
        call()
    assert str(raised.value) == refusal(capsys, *command)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (simulate(3, "owt"), NetworkError, "network of type int: expected a name, .*(module, ex"),
        (simulate(("lenet", 1), "owt"), NetworkError, "network of type tuple"),
        (simulate("lenet", 3), PlanError, "planner 3: neither a name nor a function"),
        (simulate("lenet", lambda *_: None), PlanError, "gave NoneType; it must return a Plan"),
        (simulate("lenet", "owt", 3), UsageError, "array of type int: expected a name"),
        (simulate("lenet", "owt", ARRAY, set=SMALL), UsageError, "accelarray.array"),
        (simulate("lenet", "owt", execution="fast"), UsageError, "'fast': one of published, dep"),
        (simulate("lenet", "owt", overlap="none"), UsageError, "no meaning under the published"),
        (simulate("lenet", "owt", strict_memory=True), UsageError, "no meaning under the publis"),
        (simulate("lenet", "owt", objective="speed"), PlanError, "one of time, traffic"),
        (simulate("lenet", "owt", communication="no"), PlanError, "one of printed, plotted"),
        (simulate("lenet", "owt", overlapp="none"), TypeError, "did you mean 'overlap'?"),
        (simulate("lenet", "owt", planer="owt"), TypeError, "did you mean 'planner'?"),
        (
            simulate("lenet", "owt", xyz=1),
            TypeError,
            "options are algorithm, array, attention, axis_order, batch",
        ),
        (sweep("batch=1", "lenet", stor="x"), TypeError, "did you mean 'store'?"),
        (sweep("batch=1", []), UsageError, "networks: name at least one"),
        (sweep("batch=1", "lenet", []), UsageError, "planners: name at least one"),
        (sweep("batch=1", ["lenet", LENET]), NetworkError, "several networks are called lenet"),
        (
            sweep({"array": [ARRAY]}, "lenet", "owt"),
            UsageError,
            "vary 'array': expected numbers, names or quantities with a unit, found a Array",
        ),
        (sweep({"array": ["a,b"]}, "lenet", "owt"), UsageError, "has a comma"),
        (simulate("lenet", "owt", set=None), UsageError, "set None: must be changes"),
        (sweep({}, "lenet", "owt"), UsageError, "vary is empty"),
        (lambda: accelarray.train("lenet", 2, vary={}), UsageError, "vary is empty"),
        (
            lambda: accelarray.train("lenet", 2, "ps", compare="ps,ad-psgd"),
            UsageError,
            "--compare names the methods",
        ),
        (
            lambda: accelarray.train("lenet", 2, compare="ps", vary={"batch": [1, 2]}),
            UsageError,
            "--compare: not with --vary",
        ),
        (lambda: accelarray.train("lenet", 2, compare=[]), UsageError, "name at least one"),
        (
            lambda: accelarray.train("lenet", 2, learn="logistic", loss=-1.0),
            UsageError,
            "--loss -1.0: above 0",
        ),
        (lambda: accelarray.difference("a", "b"), UsageError, "difference of a str"),  # type: ignore[call-overload]
        (lambda: ARRAY.slower(0.0), SpecError, "slower: 0.0 times"),
        (simulate("lenet", "owt", set=1), UsageError, 'set 1: must be changes as "KEY=VALUE"'),
        (lambda: accelarray.read(3), UsageError, "path 3: must be a path or text"),  # type: ignore[arg-type]
        (lambda: accelarray.train("lenet", 2.5), UsageError, "workers 2.5: must be a whole"),  # type: ignore[arg-type]
        (
            lambda: accelarray.train("lenet", 2, mode="inference"),
            UsageError,
            "--mode inference: what trains has a backward pass",
        ),
        (sweep({"network.bandwidth": ["1 Gbit/s"]}, "lenet", "owt", ARRAY), UsageError, "object"),
        (sweep({"batch": []}, "lenet", "owt"), UsageError, "expected KEY=V1,V2"),
        (
            lambda: accelarray.compare("lenet", [PLAN, "accpar"], ARRAY),
            UsageError,
            "several planners are called 'accpar'",
        ),
    ],
)
def test_what_only_python_can_get_wrong(
    call: Callable[[], object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error) as raised:
        call()
    start, _, end = words.partition(".*")
    assert start in str(raised.value)
    assert end in str(raised.value)


def test_what_is_wrong_is_said_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("experiments.studies.case.simulate", None)
    monkeypatch.setattr("experiments.api.inputs.network_of", None)
    wrongs: list[Any] = [{"objective": "speed"}, {"execution": "fast"}, {"set": "x=1"}]
    for wrong in wrongs:
        with pytest.raises(ValueError, match=r"speed|fast|x=1"):
            accelarray.simulate("resnet50", "accpar", "accpar-mixed", **wrong)

"""``import accelarray``: quick, complete, and the same numbers as the command line."""

import ast
import inspect
import json
import subprocess
import sys
import types
from functools import cache
from importlib.metadata import PackageNotFoundError, version

import pytest

import accelarray
from experiments.cli import main
from experiments.results.catalog import Names
from workloads import load_network

HEAVY = "numpy pandas matplotlib simpy rich torch onnx experiments hardware simulator"
OTHERWISE: dict[str, dict[str, object]] = {
    "calibrate": {"array": None},
    "design": {"array": "wham-1", "batch": 64},
    "report": {"array": None},
    "train": {"batch": 32},
}
"""Defaults of functions whose commands have others than a step's."""
NAMES = dir(accelarray)
FUNCTIONS = [name for name in NAMES if name.islower() and not name.startswith("_")]


def test_the_issues_line_gives_the_commands_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    step = accelarray.simulate(
        "resnet50", planner="accpar", array="tpu-v3-8", batch=1024, execution="deployed"
    )
    args = ["--planner", "accpar", "--array", "tpu-v3-8", "--batch", "1024", "--format", "json"]
    assert main(["simulate", "resnet50", *args, "--execution", "deployed"]) == 0
    printed = json.loads(capsys.readouterr().out)
    ours = json.loads(step.to_json())
    assert ours["iteration_s"] == step.iteration_s == step.timeline.iteration_s
    del printed["wall_s"]
    assert {key: ours[key] for key in printed} == printed
    assert repr(step) == "<Step resnet50, accpar on tpu-v3-8, batch 1024, deployed: 136 ms>"


def test_importing_it_loads_nothing_heavy() -> None:
    script = "import sys, accelarray; print(*{name.partition('.')[0] for name in sys.modules})"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert {*ran.stdout.split()} & {*HEAVY.split()} == set()


def test_a_step_needs_neither_torch_nor_onnx_nor_pictures() -> None:
    script = (
        "import sys, accelarray; accelarray.simulate('lenet', 'owt', set='devices.0.count=2')"
        "; print(*{name.partition('.')[0] for name in sys.modules})"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert {*ran.stdout.split()} & {"torch", "onnx", "matplotlib", "pandas"} == set()


def test_every_name_is_there_and_says_what_it_is() -> None:
    assert NAMES == getattr(accelarray, "__all__") == sorted(NAMES)  # noqa: B009  (for mypy)
    for name in NAMES:
        value = getattr(accelarray, name)
        if name != "__version__":
            assert (value.__doc__ or "").strip(), name
    tree = ast.parse(inspect.getsource(accelarray))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    typed = {alias.asname for node in imports for alias in node.names if alias.asname}
    own = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert typed | {name for name in own if name[0] != "_"} | {"__version__"} == {*NAMES}
    with pytest.raises(AttributeError, match="no attribute 'simualte'"):
        accelarray.simualte  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_typed_and_take_one_order(name: str) -> None:
    function = getattr(accelarray, name)
    assert isinstance(function, types.FunctionType)
    signature = inspect.signature(function)
    assert signature.return_annotation is not inspect.Signature.empty
    assert all(p.annotation is not p.empty for p in signature.parameters.values())
    order = ["network", "networks", "planner", "planners", "array", "batch", "execution"]
    positional = inspect.Parameter.POSITIONAL_OR_KEYWORD
    given = [k for k, p in signature.parameters.items() if k in order and p.kind is positional]
    assert given == [key for key in order if key in given]
    for key, usual in (("array", "accpar-mixed"), ("execution", None), ("batch", None)):
        if key in signature.parameters:
            default = signature.parameters[key].default
            assert default in (OTHERWISE.get(name, {}).get(key, usual), inspect.Parameter.empty)


def test_errors_are_value_errors() -> None:
    for name in NAMES:
        if name.endswith("Error"):
            assert issubclass(getattr(accelarray, name), ValueError)
    assert issubclass(accelarray.AccelarrayWarning, UserWarning)


def test_the_version_is_the_packages() -> None:
    try:
        assert accelarray.__version__ == version("accelarray")
    except PackageNotFoundError:
        assert accelarray.__version__ == "unknown"


def test_what_there_is(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    # all, four times
    monkeypatch.setattr("experiments.results.catalog.load_network", cache(load_network))
    for kind in ("networks", "planners", "arrays", "devices"):
        names = getattr(accelarray, kind)()
        assert main(["list", kind, "--format", "json"]) == 0
        rows = json.loads(capsys.readouterr().out)
        assert [*names] == [row["name"] for row in rows]
        assert json.loads(names.to_frame().to_json(orient="records")) == rows
        assert main(["list", kind]) == 0
        assert names.summary() == capsys.readouterr().out
        assert "\n" not in repr(names)
        assert f"<{len(rows)} {kind}: {names[0]}, " in repr(names)
        assert names[-1] in names._repr_html_()
        assert names[:2] == (names[0], names[1])
        assert names[0] in names
    known = accelarray.planners()
    assert repr(known) == f"<{len(known)} planners: {', '.join(known[:6])}, …>"
    assert repr(Names("planners", ("hypar", "accpar"))) == "<2 planners: hypar, accpar>"


def test_the_types_of_values_are_the_projects() -> None:
    network = accelarray.network("lenet")
    assert isinstance(network, accelarray.Network)
    array = accelarray.array("accpar-mixed", set={"devices.0.count": 2})
    assert isinstance(array, accelarray.Array)
    assert [count for _, count in array.group.kinds] == [2, 128]

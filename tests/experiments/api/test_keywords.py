"""Keywords in Python have the names of flags, and ``help()`` shows every one of them."""

import argparse
import inspect
import io
import pydoc
from typing import Any

import pytest

import accelarray
from experiments.api import argument_types
from experiments.cli import COMMANDS, parser_of
from experiments.commands.plan import OPTIONS as OF_PROFILES
from experiments.options import OPTIONS
from experiments.studies.options import MODEL_OPTIONS

FUNCTIONS = [
    name
    for name in dir(accelarray)
    if name.islower() and inspect.isfunction(getattr(accelarray, name))
]
OUTPUT = {"help", "format", "output", "plot", "study", "config", "set_keys"}
"""Flags of what is shown, and where: results have methods for that."""
OTHERWISE: dict[str, dict[str, str | None]] = {
    "simulate": {"unfolded": "folded", "metrics": None, "export": None},
    "explain": {"metrics": None},
    "fit": {"export": None},
    "read": {"file": "path"},
    "plan": {"layers": "network", "levels": "array", "profile": None}
    | dict.fromkeys((set(OF_PROFILES) | {"straight", "fewer"}) - set(MODEL_OPTIONS)),
    "speedup": {"unfolded": "folded"},
    "design": {"device": None},
    "train": {"report": None, "trace": None, "history": None},
    "reproduce": {"plot_format": None},
}
"""Flags that are another keyword's, or that a result's properties and ``save`` stand for."""


def shown(name: str) -> set[str]:
    """The keywords in a function's signature."""
    return set(inspect.signature(getattr(accelarray, name)).parameters)


def flags(command: str) -> set[str]:
    """What a command's arguments are called."""
    parser: argparse.ArgumentParser = parser_of(command)
    return {action.dest for action in parser._actions} - OUTPUT


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) & set(COMMANDS) - {"compare"}))
def test_every_flag_of_a_command_is_a_keyword(name: str) -> None:
    other = OTHERWISE.get(name, {})
    wanted = {other.get(flag, flag) for flag in flags(name)} - {None}
    assert wanted <= shown(name)
    assert other.keys() <= flags(name)


def test_every_command_that_answers_is_a_function() -> None:
    others = {"timeline", "compare", "results", "list", "show", "pipedream"}
    assert set(COMMANDS) - others <= set(FUNCTIONS)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_signatures_hide_nothing(name: str) -> None:
    function = getattr(accelarray, name)
    parameters = inspect.signature(function).parameters.values()
    assert not [p for p in parameters if p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    if hasattr(function, "__wrapped__"):
        help_text = pydoc.plain(pydoc.render_doc(function))
        for parameter in parameters:
            assert f"- {parameter.name}: " in help_text


def test_help_on_the_module_lists_the_functions() -> None:
    text = io.StringIO()
    pydoc.Helper(output=text).help(accelarray)
    for name in ("fit", "collective", "train"):
        assert f"    {name}(" in text.getvalue()


def test_the_keywords_of_a_step_are_the_table_of_options() -> None:
    short = {option.name for option in OPTIONS.values() if option.kind == "spec"}
    further = {"objective", "communication", "strict_memory", "attention", "transform"}
    options: Any = argument_types.Options
    assert set(options.__annotations__) == {*MODEL_OPTIONS, *short, *further}


def test_a_keyword_that_is_not_there_is_refused_with_the_nearest() -> None:
    wrong: Any = {"algoritm": "ring"}
    with pytest.raises(TypeError, match="'algoritm'; did you mean 'algorithm'"):
        accelarray.collective("all-reduce", "1 MB", "ring-8", **wrong)


def test_a_keyword_means_what_its_flag_does() -> None:
    for function, name in (("simulate", "bucket"), ("fit", "axes"), ("design", "objective")):
        said = " ".join((inspect.getdoc(getattr(accelarray, function)) or "").split())
        key = f"{function}.{name}" if function != "simulate" else "execution.bucket"
        assert f"- {name}: {OPTIONS[key].about}" in said
        assert OPTIONS[key].otherwise in said


def test_none_is_as_if_not_said() -> None:
    asked: dict[str, Any] = {"array": "tpu-v3-8", "batch": 64}
    said: dict[str, Any] = {"objective": None, "communication": None}
    step, again = (accelarray.simulate("lenet", "owt", **asked, **more) for more in ({}, said))
    assert step.iteration_s == again.iteration_s
    said = {"metrics": None, "jobs": 1}
    assert list(accelarray.compare("lenet", "owt", **asked, **said).to_frame().planner) == ["owt"]


@pytest.mark.parametrize(
    ("more", "instead"),
    [
        ({"stages": 2}, "take --parallel pp=P"),
        ({"virtual": 2}, "take --parallel vp=V"),
        ({"cuts": "layer1"}, "simulate takes them"),
        ({"vertical_sync": True}, "simulate takes it"),
        ({"micro_batches": 2}, "take --axes micro-batch"),
    ],
)
def test_fit_refuses_what_each_combination_has_of_its_own(
    more: dict[str, Any], instead: str
) -> None:
    with pytest.raises(accelarray.UsageError, match=instead):
        accelarray.fit("gpt2:layers=2:seq=64", "dgx-1-v100", 16, jobs=1, **more)


def test_a_plan_is_exported_as_its_step_is() -> None:
    asked: dict[str, Any] = {"parallel": "pp=2", "array": "dgx-1-v100", "batch": 64}
    step = accelarray.simulate("gpt2:layers=2:seq=64", **asked)
    assert accelarray.plan("gpt2:layers=2:seq=64", **asked).export("megatron") == step.export(
        "megatron"
    )


def test_a_made_plan_keeps_its_objective() -> None:
    made = accelarray.plan("lenet", "accpar", "tpu-v3-8", 64)
    with pytest.warns(accelarray.AccelarrayWarning, match="made for objective time; traffic has"):
        step = accelarray.simulate("lenet", made, "tpu-v3-8", objective="traffic")
    assert step.to_dict()["objective"] == "time"

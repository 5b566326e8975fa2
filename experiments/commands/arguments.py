"""Arguments that several commands share, typed or in a study's file (``--study``)."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from experiments.output import UsageError
from experiments.results.formats import FORMATS
from hardware.reader import hint, parse_toml, read_text
from simulator.lowering.schedules.registry import SCHEDULES


def add_array(parser: argparse.ArgumentParser) -> None:
    """``--array`` and ``--set``."""
    parser.add_argument(
        "--array",
        metavar="A",
        help="array from the catalog, or the path of a .toml file (default: accpar-mixed, of the "
        "papers)",
    )
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help='change a value of the spec, as network.bandwidth="100 Gbit/s" or devices.0.count=64',
    )
    for key, values, about in TRAINING:
        parser.add_argument(f"--{key}", action=_Change, metavar=values, help=about)


TRAINING = (
    ("precision", "bf16|fp8|…", "mixed precision: what products compute in, and what is kept"),
    ("optimizer", "adam|sgd|adafactor", "what is kept of each parameter"),
    ("stack", "S", "software: its efficiencies and habits (see: list stacks)"),
)
"""Options that are short for ``--set KEY=VALUE``."""


class _Change(argparse.Action):
    """Notes an option, and that a spec is changed by it."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,  # noqa: ARG002
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,  # noqa: ARG002
    ) -> None:
        setattr(namespace, self.dest, values)
        namespace.set = [*namespace.set, f"{self.dest}={values}"]


def add_network(parser: argparse.ArgumentParser, *, optional: bool = False) -> None:
    """The network that a command is about."""
    parser.add_argument(
        "network",
        nargs="?" if optional else None,
        metavar="NETWORK",
        help="a network (see: list networks), or the path of an .onnx or layer file",
    )
    add_transform(parser)


def add_planner(parser: argparse.ArgumentParser) -> None:
    """``--planner`` or ``--plan``."""
    either = parser.add_mutually_exclusive_group(required=True)
    either.add_argument(
        "--planner", metavar="P", help="see: list planners; or module:function, imported"
    )
    either.add_argument(
        "--plan", metavar="FILE", help="a plan as plan --format json prints it (.json)"
    )
    add_axes(parser, either)


def add_axes(parser: argparse.ArgumentParser, either: Any = None) -> None:
    """``--parallel``, in place of a planner or for planner "axes", and what belongs to it."""
    only = parser.add_argument_group("named axes (planner axes)")
    (either or only).add_argument(
        "--parallel",
        metavar="AXES",
        help="as dp=16,pp=8,tp=8,sp,cp=2,vp=2,ep=8: samples, stages, heads and features, with sp "
        "positions elsewhere, positions, stages a place, experts within dp; without dp as "
        "many as are left",
    )
    only.add_argument(
        "--zero",
        metavar="0|1|2|3",
        help="what dp and cp keep in parts: nothing, the optimizer's state, gradients too, or "
        "weights too (as --update)",
    )
    only.add_argument(
        "--axis-order", metavar="A1,A2", help="on the machine, innermost first (tp,cp,dp,pp)"
    )
    only.add_argument(
        "--stage-hw",
        metavar="STAGES",
        help="devices of each stage: kind, tp and replicas, as v100:1x4;t4:2x2 (+ between kinds "
        "of one stage)",
    )
    only.add_argument(
        "--stage-layers", metavar="N1;N2", help="blocks of each stage (default: as many each)"
    )
    only.add_argument(
        "--micro-batch",
        metavar="N",
        help="samples of a micro-batch for each of dp ways (1 where there are stages)",
    )


def add_step(parser: argparse.ArgumentParser) -> None:
    """What decides a step besides network and planner: array, batch and both models' options."""
    add_array(parser)
    add_batch(parser)
    add_objective(parser)
    add_communication(parser)
    add_execution(parser)


def add_batch(parser: argparse.ArgumentParser) -> None:
    """``--batch``."""
    parser.add_argument(
        "--batch", metavar="N", type=int, default=512, help="samples a step, all together (512)"
    )


def add_objective(parser: argparse.ArgumentParser) -> None:
    """``--objective``."""
    parser.add_argument(
        "--objective",
        choices=("time", "traffic"),
        default="time",
        help="what a planner minimises: seconds, or elements as the AccPar authors' program",
    )


def add_communication(parser: argparse.ArgumentParser) -> None:
    """``--communication``."""
    parser.add_argument(
        "--communication",
        choices=("printed", "plotted"),
        default="printed",
        help="what exchanges move: the table printed in the papers, or the one that HyPar's "
        "figures follow (types I and II, chains)",
    )


def add_metrics(parser: argparse.ArgumentParser) -> None:
    """``--metrics``."""
    parser.add_argument(
        "--metrics",
        metavar="M1,M2",
        default="time",
        help="what to show: time, energy, traffic (default: time)",
    )


def add_networks(parser: argparse.ArgumentParser) -> None:
    """``--networks`` of a comparison."""
    parser.add_argument(
        "--networks", metavar="N1,N2|all", default="all", help="default: all, AccPar's nine"
    )
    add_transform(parser)


def add_transform(parser: argparse.ArgumentParser) -> None:
    """``--transform``."""
    parser.add_argument(
        "--transform",
        metavar="T",
        action="append",
        default=[],
        help="circulant=B: block-circulant weights; zeros: transposed convolutions on inserted "
        "zeros; apart: element-wise kernels as without a compiler",
    )
    parser.add_argument(
        "--attention",
        metavar="fused|unfused|eager",
        dest="transform",
        action="append",
        type="attention={}".format,
        help="attention in one kernel that keeps no scores, or as two products and a softmax; "
        "eager: with a mask in a kernel of its own (default: as the network has it)",
    )


def add_planners(parser: argparse.ArgumentParser) -> None:
    """``--planners`` of a comparison."""
    parser.add_argument(
        "--planners",
        metavar="P1,P2|all",
        default="all",
        help="default: all (model_parallel and other packages' only by name)",
    )
    add_axes(parser)


def add_unfolded(parser: argparse.ArgumentParser) -> None:
    """``--unfolded``."""
    parser.add_argument(
        "--unfolded",
        action="store_true",
        help="simulate every core and link, not one of each class (same result, slower)",
    )


def add_execution(parser: argparse.ArgumentParser) -> None:
    """``--execution`` and what belongs to the deployed model."""
    parser.add_argument(
        "--execution",
        choices=("published", "deployed"),
        help="the papers' model, or real wires, memory and schedules (default: what the array "
        "is for, see: list arrays)",
    )
    parser.add_argument(
        "--mode", choices=("training", "inference"), help="inference: forward alone (training)"
    )
    parser.add_argument(
        "--update",
        choices=("replicated", "sharded", "gradients", "weights", "auto"),
        help="who updates weights that several devices have: each all, or each its part, gathered "
        "for the next step; gradients, weights: in parts, too; auto: by price (as the plan has it)",
    )
    only = parser.add_argument_group("with --execution deployed")
    only.add_argument(
        "--overlap", choices=("full", "none"), help="exchanges go on while cores compute (full)"
    )
    only.add_argument(
        "--shards", choices=("whole", "exact"), help="whole samples and channels, or fractions"
    )
    only.add_argument(
        "--bucket",
        metavar="BYTES",
        help='exchange gradients together until they have so many bytes ("25 MiB"; 0: each alone)',
    )
    only.add_argument(
        "--update-order", choices=("layers", "arrival"), help="of weights (as the plan has it)"
    )
    only.add_argument("--algorithm", metavar="X", help="of collectives (auto: the cheapest)")
    only.add_argument(
        "--memory-reserve",
        metavar="SHARE",
        help="share of memory that the step may not use, as 6%% (default: the stack's)",
    )
    only.add_argument(
        "--strict-memory",
        action="store_true",
        default=None,
        help="a step that does not fit in HBM is an error (default: a warning)",
    )
    add_stages(parser)


def add_stages(parser: argparse.ArgumentParser) -> None:
    """``--stages`` and what belongs to pipelines, and to micro-batches without any."""
    only = parser.add_argument_group("pipelines")
    only.add_argument(
        "--stages", metavar="P", help="cut the network into P stages, on as many equal places"
    )
    only.add_argument("--schedule", metavar="S", help=", ".join(SCHEDULES))
    only.add_argument(
        "--micro-batches", metavar="M", help="of which a batch is made (1); without stages, too"
    )
    only.add_argument("--virtual", metavar="V", help="stages at each place (1)")
    only.add_argument(
        "--cuts", metavar="L1,L2", help="the layers that stages begin with (default: balanced)"
    )
    only.add_argument(
        "--recompute",
        metavar="R",
        help="what is computed again instead of kept: none, selective (the core of attention), "
        "full (each block), or N blocks of each stage; stages:all or stages:0,1: whole stages",
    )
    only.add_argument(
        "--tied",
        metavar="copies",
        help="weights that stages share: both keep them, and sum their gradients",
    )
    only.add_argument(
        "--vertical-sync",
        action="store_const",
        const="yes",
        help="without a flush: one version of the weights for a micro-batch in all stages",
    )
    only.add_argument(
        "--batches", metavar="N", help="batches to run where nothing is flushed (as needed)"
    )


def add_output(parser: argparse.ArgumentParser, *further: str) -> None:
    """``--format`` and ``--output``, of which ``results.formats.settle`` makes one choice."""
    formats = (*FORMATS, *further)
    parser.add_argument(
        "--format", choices=formats, help="default: what --output ends in, or else table"
    )
    endings = ", ".join(f".{name}" for name in formats if name != "table")
    parser.add_argument(
        "--output",
        metavar="FILE",
        help=f"write there instead of the terminal ({endings}; anything else is text)",
    )
    parser.set_defaults(formats=formats)


def add_runner(parser: argparse.ArgumentParser) -> None:
    """``--store``, ``--jobs`` and ``--cluster``."""
    parser.add_argument(
        "--store", metavar="FILE", help="keep finished cases, run only missing ones"
    )
    parser.add_argument(
        "--jobs", metavar="N", type=int, help="processes (default: the cores; one for little work)"
    )
    parser.add_argument("--cluster", metavar="ADDRESS", help="a dask scheduler, as tcp://host:8786")


_FLAG = re.compile(r"--stu(?:d|dy)?(?:=(.*))?", re.DOTALL)
"""``--study``, and what argparse takes for it."""


def add_study(parser: argparse.ArgumentParser) -> None:
    """``--study``."""
    parser.add_argument(
        "--study",
        metavar="FILE",
        help="take flags from a TOML file, as networks = [...]; those given beside it win",
    )
    parser.set_defaults(takes_study=True)


class Study:
    """The flags in a file, checked, which become the defaults of a command's parser."""

    def __init__(self, path: str, command: argparse.ArgumentParser) -> None:
        """Read and check the file, and give its values to the parser; raises UsageError."""
        self.path = path
        self.flags = {
            option.removeprefix("--"): action
            for action in command._actions
            for option in action.option_strings
            if option.startswith("--") and option not in ("--help", "--study")
        }
        self.values = {
            self._flag(key).dest: self._value(key, value) for key, value in _read(path).items()
        }

        command.set_defaults(**self.values)
        for action in self.flags.values():
            action.required = action.required and action.dest not in self.values

    def settle(self, args: argparse.Namespace) -> None:
        """Of KEY=VALUE flags, leave out the file's where the command line has the same key."""
        for dest, ours in self.values.items():
            if isinstance(ours, list):
                typed = getattr(args, dest)[len(ours) :]
                keys = {_key(text) for text in typed}
                kept = [text for text in ours if _key(text) not in keys]
                setattr(args, dest, kept + typed)

    def _flag(self, key: str) -> argparse.Action:
        if (action := self.flags.get(key)) is not None:
            return action
        raise self._error(key, f"this command has no such flag; {hint(key, sorted(self.flags))}")

    def _value(self, key: str, value: Any) -> Any:
        """A flag's value as its parser would make it of what is typed."""
        action = self.flags[key]
        if action.nargs == 0:
            if not isinstance(value, bool):
                raise self._error(key, f"{value!r}: must be true or false")
            return value or action.default
        if isinstance(action, argparse._AppendAction):
            return list(self._assignments(key, value))
        text = self._text(key, value)
        if action.choices is not None and text not in action.choices:
            raise self._error(key, f"{text!r}: one of {', '.join(action.choices)}")
        if action.type is int:
            try:
                return int(text)
            except ValueError:
                raise self._error(key, f"{text!r}: must be a whole number") from None
        return text

    def _text(self, key: str, value: Any) -> str:
        """What would be typed for it: a list goes between commas."""
        if isinstance(value, list) and value:
            return ",".join(self._text(key, item) for item in value)
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            return str(value)
        raise self._error(key, f"{value!r}: write a text, a number or a list of them")

    def _assignments(self, key: str, value: Any) -> Iterator[str]:
        """``KEY=VALUE`` of a table, or as they are typed."""
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            yield from value
        elif isinstance(value, dict):
            for path, leaf in _leaves(value):
                yield f"{path}={self._assigned(f'{key}.{path}', key, leaf)}"
        else:
            raise self._error(key, 'write a table, as [vary], or a list of "KEY=VALUE"')

    def _assigned(self, path: str, key: str, value: Any) -> str:
        if isinstance(value, bool) or (isinstance(value, list) and key == "set"):
            try:
                return json.dumps(value)  # TOML has these as JSON has them
            except TypeError:
                raise self._error(path, f"{value!r}: write texts and numbers") from None
        return self._text(path, value)

    def _error(self, key: str, fault: str) -> Exception:
        return UsageError(f"{self.path}: {key}: {fault}")


def study_of(words: list[str], command: argparse.ArgumentParser) -> Study | None:
    """The study that a command line names, the last one where it names several."""
    found = None
    for word, following in zip(words, [*words[1:], None], strict=True):
        if word == "--":
            break
        if match := _FLAG.fullmatch(word):
            found = following if match[1] is None else match[1]
    return None if found is None else Study(found, command)


def _key(text: str) -> str:
    return text.partition("=")[0].strip()


def _leaves(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _read(path: str) -> dict[str, Any]:
    return parse_toml(read_text(path, UsageError, "a study file"), path, UsageError)

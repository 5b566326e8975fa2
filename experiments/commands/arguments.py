"""Arguments that several commands share."""

from __future__ import annotations

import argparse

from experiments.formats import FORMATS


def add_array(parser: argparse.ArgumentParser, default: str | None = "accpar-mixed") -> None:
    """``--array`` and ``--set``."""
    parser.add_argument(
        "--array",
        metavar="A",
        default=default,
        help="array from the catalog, or the path of a .toml file (default: accpar-mixed)",
    )
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help='change a value of the spec, as network.bandwidth="100 Gbit/s" or devices.0.count=64',
    )


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


def add_step(parser: argparse.ArgumentParser, array: str | None = "accpar-mixed") -> None:
    """What decides a step besides network and planner: array, batch and both models' options."""
    add_array(parser, array)
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
        "zeros",
    )


def add_planners(parser: argparse.ArgumentParser) -> None:
    """``--planners`` of a comparison."""
    parser.add_argument(
        "--planners",
        metavar="P1,P2|all",
        default="all",
        help="default: all (model_parallel and other packages' only by name)",
    )


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
        "--mode",
        choices=("training", "inference"),
        help="inference: the forward pass alone (training)",
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
        help='exchange gradients together until they have so many bytes ("25 MiB" or 1e8; '
        "0: each alone)",
    )
    only.add_argument("--algorithm", metavar="X", help="of collectives (auto: the cheapest)")
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
    only.add_argument(
        "--schedule", metavar="S", help="gpipe, 1f1b, interleaved, zero-bubble, pipedream or 2bw"
    )
    only.add_argument(
        "--micro-batches", metavar="M", help="of which a batch is made (1); without stages, too"
    )
    only.add_argument("--virtual", metavar="V", help="stages at each place (1)")
    only.add_argument(
        "--cuts", metavar="L1,L2", help="the layers that stages begin with (default: balanced)"
    )
    only.add_argument(
        "--recompute",
        metavar="all|0,1",
        help="stages that keep their inputs alone, and compute forward again",
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
    """``--format`` and ``--output``; ``experiments.formats.settle`` makes one choice of both."""
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

"""``accelarray read``: what another tool's file says, as a file for ``--config``."""

from __future__ import annotations

import argparse

from experiments.commands.arguments import Parser, changed
from experiments.files.read import read
from experiments.output import check_writable
from experiments.results.result import show


def configure_read(parser: Parser) -> None:
    """Add its arguments."""
    about = "config.json or its folder, or a file of Megatron, torchtitan, MaxText, DeepSpeed"
    parser.add_argument("file", metavar="FILE", help=about)
    parser.add(changed("format", values="table|json", value="table", default=""), "output")


def run_read(args: argparse.Namespace) -> None:
    """Read, then print or write."""
    check_writable(args.output)
    show(args, read(args.file))

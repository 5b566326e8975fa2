"""``accelarray papers train``: workers, a method, slow ones among them, what they learn."""

from __future__ import annotations

import argparse

from experiments.api.training import train
from experiments.commands.arguments import ARRAY, EXECUTION, MODEL, Parser, changed
from experiments.commands.resolve import keywords_of
from experiments.options import OPTIONS
from experiments.output import UsageError, check_page, deliver_page
from experiments.results.result import check_outputs, show


def configure_train(parser: Parser) -> None:
    """Add its arguments."""
    parser.add_network()
    batch = changed("batch", value=32, default="", about="batch size of a worker")
    parser.add(batch, *MODEL, *ARRAY)
    parser.add(*(key for key in OPTIONS if key.startswith("train.")))
    kept = changed("store", shown=False)
    parser.add(changed("vary", required=False), *EXECUTION, kept, "plot", hide=("memory_reserve",))
    parser.add_output()
    parser.set_defaults(vary=None)


def run_train(args: argparse.Namespace) -> None:
    """Run every method, then deliver table, picture, trace and page."""
    _check(args)
    check_outputs(args, args.trace, args.report, args.history)
    found = train(**keywords_of(args, train))
    show(args, found)
    if args.trace:
        found.trace(args.trace)
    if args.history:
        found.history(args.history)
    if args.report:
        deliver_page(found.page(args.typed), args.report)


def _check(args: argparse.Namespace) -> None:
    """Raise UsageError for outputs that a run does not have."""
    for flag in (one for one in ("plot", "report", "trace", "history") if getattr(args, one)):
        if args.vary:
            raise UsageError(f"--{flag}: not with --vary, which prints a row for each run")
        if args.method == "pipeline" and not args.compare:
            raise UsageError(f"--{flag}: not with --method pipeline (timeline draws its steps)")
        if args.compare and args.store:
            raise UsageError(f"--{flag}: a --store keeps numbers, not timelines; leave one out")
        if flag in ("trace", "history") and args.compare and "," in args.compare:
            raise UsageError(f"--{flag}: of one method; use --method")
    if args.history and not args.learn:
        raise UsageError("--history: only models that learn have one; add --learn logistic")
    if args.report:
        check_page(args.report, "--report")
    if args.trace and not args.trace.lower().endswith((".json", ".json.gz")):
        raise UsageError(f"--trace {args.trace!r}: the name must end in .json or .json.gz")
    if args.history and not args.history.lower().endswith(".json"):
        raise UsageError(f"--history {args.history!r}: the name must end in .json")

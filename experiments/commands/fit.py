"""``accelarray fit``: the combinations of axes that fit a model on an array, the fastest first."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from experiments.commands.arguments import (
    add_array,
    add_batch,
    add_execution,
    add_network,
    add_output,
    add_runner,
)
from experiments.commands.resolve import array_of, execution_of, network_of, running
from experiments.output import UsageError
from experiments.pictures.figures import save
from experiments.pictures.fit_plot import plot_fit
from experiments.results.result import Answer, check_outputs, show
from experiments.studies.fitting import VARIED, Fit, ranked, row_of, run_choice, varied_of, why_not
from experiments.studies.throughput import readable

if TYPE_CHECKING:
    from rich.table import Table


SHOWN = 15
COLUMNS = ("dp", "tp", "cp", "pp", "vp", "ep", "micro_batch", "recompute", "update")


def configure(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "fit", help="every combination of axes of parallelism that fits, the fastest first"
    )
    add_network(parser)
    add_array(parser, None)
    add_batch(parser)
    parser.add_argument(
        "--axes",
        metavar="A1,A2",
        help="what to vary: tp, sp, pp, ep, micro-batch, recompute (these by default), cp, vp, "
        "update (zero 0 to 3, the last without stages); dp takes the devices that are left",
    )
    add_execution(parser)
    add_runner(parser)
    add_output(parser)
    parser.add_argument("--plot", metavar="FILE", help="draw a picture (.png, .svg or .pdf)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run every combination that may fit, then deliver table and picture."""
    check_outputs(args)
    array = array_of(args)
    execution = execution_of(args, array)
    if execution.model != "deployed":
        raise UsageError("fit: the published model has no memory; take --execution deployed")
    varied = VARIED if args.axes is None else varied_of(args.axes)
    asked = Fit(network_of(args, array), array, args.batch, execution, varied)
    cases, every = asked.cases(), list(asked.choices())
    found = {}
    with running(args, len(cases)) as (runner, progress, _):
        for done in runner.run(cases, asked.after, run_choice, asked.passes):
            found[done.name] = row_of(done.name, asked.case(done.name), done.outputs)
            if not asked.after(done.name, done.outputs):
                progress(str(done.name.axes))
    rows = [found[choice] for choice in every if choice in found]  # whichever ended first
    best = ranked(rows)
    if args.plot:
        save(plot_fit(best, _title(asked)), args.plot)
    data = {
        "network": asked.network.name,
        "array": array.name,
        "batch": args.batch,
        "execution": str(execution),
        "varied": list(varied),
        "combinations": len(every),
        "simulated": len(best),
        "fits": best,
        "others": [row for row in rows if row["reason"]],
    }
    answer = Answer(
        data,
        lambda: [*best, *data["others"]],
        lambda: _tables(asked, rows, len(every)),
        picture=lambda: plot_fit(best, _title(asked)),
    )
    show(args, answer)
    return 0


def _title(asked: Fit) -> str:
    return f"{asked.network.name} on {asked.array.name}, batch {asked.batch}"


def _tables(asked: Fit, rows: list[dict[str, Any]], every: int) -> list[Table | str]:
    """The fastest, and how many there were in all."""
    from rich.table import Table

    best = ranked(rows)
    counts = why_not(rows)
    said = [
        f"{every:,} combinations: {len(best):,} simulated, "
        f"{counts['do not fit in memory']:,} that do not fit in memory, "
        f"{counts['cannot be']:,} that cannot be; of the other {every - len(rows):,} the weights "
        "alone do not fit, or smaller micro-batches do not, or the same fits with less computed "
        "again."
    ]
    if not best:
        return [_title(asked), *said]
    kept = [name for name in COLUMNS if len({row[name] for row in best}) > 1]
    table = Table(title=_title(asked))
    for name in (*kept, "step [s]", "tokens/s each", "of peak", "GiB"):
        table.add_column(name.replace("_", " "), justify="right")
    for row in best[:SHOWN]:
        cells = [f"{row[name]}" + ("+sp" if name == "tp" and row["sp"] else "") for name in kept]
        each = row["tokens_per_s_each"]
        table.add_row(
            *cells,
            f"{row['iteration_s']:.4g}",
            "" if each is None else readable(each),
            f"{row['share_of_peak']:.1%}",
            f"{row['peak_memory_bytes'] / 2**30:.1f}",
        )
    return [table, *said]

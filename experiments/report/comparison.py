"""Sections about what is compared: headline, speedups, plans, a store's results, specs."""

from __future__ import annotations

import math
import platform
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version as installed
from itertools import groupby, islice
from typing import Any

from experiments import terms
from experiments.pictures.plan_map import SPLITS, describe, kinds_of, stretches
from experiments.report.charts import DRAWABLE, Chart, bars, lines
from experiments.report.page import Number, Split, Table, four_digits, printed
from experiments.results.planned import tables as planned_tables
from experiments.results.speedups import metric_table
from experiments.studies.running.outputs import NAMES
from experiments.studies.speedups import BASELINE, Comparison, geometric_mean, messages
from experiments.version import version
from hardware import Array, split_quantity
from planners import OBJECTIVES, Plan
from simulator import MODEL_VERSION

Result = Mapping[str, Any]

MOST_COLUMNS = 64
MOST_ROWS = 1000
MOST_CHARTS = 24
INPUTS = ("network", "planner", "array", "accelerators", "batch", "objective", "execution")
SECONDS = "iteration_s"
SHARES = ("computing", "communicating", "waiting")
WHEN = ("finished", "version")
WORDS = {"batch": "batch {}", "model": "model {}", "accelerators": "{} accelerators"}


def title(results: Sequence[Comparison]) -> str:
    """Networks, planners and arrays, batch and execution model."""
    first = results[0]
    others = [planner for planner in first.planners if planner != BASELINE]
    compared = f"{_some(others, 'planners')} against data parallelism" if others else BASELINE
    networks = _some(first.networks, "networks")
    arrays = _all([result.array for result in results])
    models = _all(list(dict.fromkeys(result.execution for result in results)))
    return f"{compared} for {networks} on {arrays}, batch {first.batch}, {models}"


def _some(names: Sequence[str], what: str) -> str:
    """Up to three by name, more by their number."""
    return _all(names) if len(names) <= 3 else f"{len(names)} {what}"


def _all(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def message(results: Sequence[Comparison]) -> str:
    """The fastest planner of each array, how much faster it is, and than which other."""
    found = "; ".join(_finding(result) + _full(result) for result in results)
    return f"{found[0].upper()}{found[1:]}."


def _finding(result: Comparison) -> str:
    """One array's; planners are compared by the geometric mean of their speedups."""
    ranked = sorted(result.geomean, key=lambda planner: -result.geomean[planner])
    if ranked == [BASELINE]:
        times = [row.iteration_s for row in result.rows]
        ends = dict.fromkeys(map(terms.duration, (min(times), max(times))))
        return f"on {result.array} a step under data parallelism takes {' to '.join(ends)}"
    best = ranked[0]
    if best == BASELINE:
        nearest = f"{ranked[1]}, the nearest, is {_as_fast(result.geomean[ranked[1]])} it"
        return f"on {result.array} no planner beats data parallelism: {nearest}"
    speedups = [row.speedup for row in result.of(best)]
    found = f"on {result.array}, {best} is {_as_fast(result.geomean[best])} data parallelism"
    if len(speedups) > 1:
        spread = f"{min(speedups):.3g} to {max(speedups):.3g}"
        found += f" in the geometric mean of {len(speedups)} networks ({spread})"
    rivals = [planner for planner in ranked[1:] if planner != BASELINE]
    if rivals:
        ratio = result.geomean[best] / result.geomean[rivals[0]]
        found += f", and {_as_fast(ratio)} {rivals[0]}"
    return found


def _full(result: Comparison) -> str:
    """What of it does not fit in memory, in brackets."""
    full = [f"{planner} for {_all(networks)}" for planner, networks in result.full.items()]
    return f" (does not fit in memory: {'; '.join(full)})" if full else ""


def _as_fast(ratio: float) -> str:
    """Words in front of what something is compared with."""
    return "as fast as" if f"{ratio:.3g}" == "1" else f"{ratio:.3g} times as fast as"


def speedups(results: Sequence[Comparison]) -> list[dict[str, Any]]:
    """For each array tables of speedups and further metrics, notes, and bars."""
    return [
        {
            "name": result.array,
            "tables": [
                _speedup_table(result),
                *(printed(metric_table(result, one)) for one in result.metrics if one != "time"),
            ],
            "notes": [*messages(result), *result.unread],
            "charts": _bars(result),
        }
        for result in results
    ]


def _speedup_table(result: Comparison) -> Table:
    """Speedups beside the paper's values; of planners on the fastest devices alone as well."""
    ours, paper = result.geomean, result.published
    alone = [p for p in result.planners if all(r.fast_alone_speedup for r in result.of(p))]
    head = ["network", *[f"{p} [ms]" if p == BASELINE else p for p in result.planners]]
    means: list[object] = ["" if p == BASELINE else Number(ours[p], ".3f") for p in ours]
    for planner in alone:
        head += [f"{planner}: slow share", f"{planner}: fast alone"]
        mean = geometric_mean([row.fast_alone_speedup or 0 for row in result.of(planner)])
        means += ["", Number(mean, ".3f")]
    rows = []
    for network in result.networks:
        of = {row.planner: row for row in result.rows if row.network == network}
        cells: list[object] = [network]
        for planner, row in of.items():
            mark = result.mark(planner, network)
            took = Number(row.speedup, ".3f", f"{row.iteration_s!r} s", mark=mark)
            base = four_digits(row.iteration_s, 1e3)._replace(mark=mark)
            cells.append(base if planner == BASELINE else took)
        for row in (of[planner] for planner in alone):
            cells += [Number(row.slow_share, ".2%"), Number(row.fast_alone_speedup, ".3f")]
        rows.append(cells)
    foot = [["geometric mean", *means]]
    if paper:
        rest = [""] * (2 * len(alone))
        theirs = {p: Number(paper[p].speedup, ".2f") if p in paper else "" for p in ours}
        ratios = [
            Number(ours[p] / paper[p].speedup - 1, "+z.1%") if p in paper else "" for p in ours
        ]
        foot += [["the paper's", *theirs.values(), *rest], ["difference", *ratios, *rest]]
    return Table(f"Speedups on {result.case}", head, rows, foot)


def _bars(result: Comparison) -> list[Chart]:
    heights = {
        planner: [row.speedup for row in result.of(planner)] + [result.geomean[planner]]
        for planner in result.planners
        if planner != BASELINE
    }
    marks = {p: paper.speedup for p, paper in result.published.items() if p in heights}
    groups = [*result.networks, "geo. mean"]
    return [bars(result.case, groups, heights, marks)] if heights else []


def plan_maps(network: str, plans: list[tuple[Array, list[Plan]]]) -> dict[str, Any]:
    """For each array, a map for each plan of one network: layers down, levels across."""
    types = kinds_of(*(plan for _, of in plans for plan in of))
    return {
        "network": network,
        "types": [(name, SPLITS[name].removeprefix("the ")) for name in types],
        "arrays": [(array.name, [_map(plan, array) for plan in of]) for array, of in plans],
    }


def _map(plan: Plan, array: Array) -> dict[str, Any]:
    every = (
        (describe(top, chain), level + i, one)
        for top, level, chain in stretches(plan.root, plan.group(array), 0)
        for i, one in enumerate(chain)
    )
    found = list(islice(every, MOST_COLUMNS + 1))
    shown = found[:MOST_COLUMNS]
    rows: list[list[object]] = [[name] for name in plan.nodes]
    for _, _, split in shown:
        for row, one in zip(rows, split.partitions, strict=True):
            row.append(Split(str(one.type), Number(None if one.share == 0.5 else one.share, ".3g")))
    cost = f"cost [{OBJECTIVES[plan.objective].unit}]"
    foot = [cost, *(Number(split.cost, ".3g") for _, _, split in shown)]
    runs = groupby(enumerate(shown), lambda one: (one[1][0], one[1][1] - one[0]))
    groups = [(about, len(list(run))) for (about, _), run in runs]
    title = f"{plan.planner}, {plan.network} on {array.name}, batch {plan.batch}"
    head = ["layer", *(level for _, level, _ in shown)]
    return {
        "title": title,
        "planner": plan.planner,
        "table": Table(title, head, rows, [foot], "map", groups) if shown else None,
        "parts": _parts(plan, array),
        "cut": MOST_COLUMNS if len(found) > len(shown) else None,
    }


def _parts(plan: Plan, array: Array) -> list[str | Table]:
    """Sentences and tables about the plan of a pipeline, whose stages have plans of their own."""
    found: list[str | Table] = []
    about = plan.planner
    for one in planned_tables(plan, array)[1:] if plan.pipeline else ():
        about = one if isinstance(one, str) and one else about
        found.append(one if isinstance(one, str) else printed(one, f"{plan.planner}, {about}"))
    return [one for one in found if one]


def results(rows: Sequence[Result]) -> dict[str, Any]:
    """The newest results of a store, and charts of those that can be compared."""
    shown, varied = rows[-MOST_ROWS:], varied_keys(rows)
    cells = [
        [
            *(result.get(key, "") for key in (*INPUTS, *varied)),
            _number(result.get(SECONDS), ".9g"),
            *(_number(result.get(key), ".2%") for key in SHARES),
            *(result.get(key, "") for key in WHEN),
        ]
        for result in shown
    ]
    words = [terms.SHARES[key] for key in SHARES]
    head = ["network", *INPUTS[1:], *varied, "step time [s]", *words, *WHEN]
    more = f"; the newest {MOST_ROWS:,} are shown" if len(rows) > len(shown) else ""
    return {
        "count": f"{len(rows):,} results{more}",
        "table": Table("Results, oldest first", head, cells),
        "charts": list(islice(charts(rows), MOST_CHARTS)),
    }


def _number(value: Any, spec: str) -> object:
    return Number(value, spec) if _is_number(value) else ("" if value is None else value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_drawable(value: Any) -> bool:
    return _is_number(value) and DRAWABLE[0] <= value <= DRAWABLE[1]


def varied_keys(rows: Sequence[Result]) -> list[str]:
    """Keys of specs that sweeps have varied: those whose values differ among the results."""
    known = {*INPUTS, *NAMES, *WHEN, "key"}
    keys = dict.fromkeys(key for row in rows for key in row if key not in known)
    return [key for key in keys if len({str(row.get(key, "")) for row in rows}) > 1]


def charts(rows: Sequence[Result]) -> Iterator[Chart]:
    """For results alike but for the batch, the accelerators or a varied value, a chart each."""
    usable = [row for row in rows if _is_drawable(row.get(SECONDS))]
    planners = list(dict.fromkeys(str(row.get("planner")) for row in usable))
    varied = varied_keys(rows)
    for across in ("batch", "accelerators", *(key for key in varied if key != "model")):
        fixed = [key for key in (*INPUTS, *varied) if key not in (across, "planner")]
        groups: dict[tuple[str, ...], list[Result]] = {}
        for row in usable:
            groups.setdefault(tuple(str(row.get(key, "")) for key in fixed), []).append(row)
        for values, group in groups.items():
            series = {planner: _points(group, planner, across) for planner in planners}
            if any(_differ(points) for points in series.values()):
                pairs = zip(fixed, values, strict=True)
                words = [WORDS.get(key, "{}").format(value) for key, value in pairs if value]
                yield lines(", ".join(words), across, "step time [s]", series)


def _points(group: Sequence[Result], planner: str, across: str) -> list[tuple[float, float]]:
    """One planner's places on both axes, of several at one place the newest; both are positive."""
    own = [row for row in group if str(row.get("planner")) == planner]
    places = ((_place(row.get(across)), float(row[SECONDS])) for row in own)
    return sorted({place: seconds for place, seconds in places if place is not None}.items())


def _place(value: Any) -> float | None:
    """A value as a place on an axis: a number, or a quantity in its unit; both positive."""
    if isinstance(value, str):
        quantity = split_quantity(value)
        try:
            value = quantity[1] if quantity else float(value)
        except ValueError:
            return None
    return float(value) if _is_drawable(value) else None


def _differ(points: Sequence[tuple[float, float]]) -> bool:
    return len({x for x, _ in points}) > 1 and len({y for _, y in points}) > 1


def specs(arrays: Sequence[Array]) -> list[dict[str, Any]]:
    """Every value of each array, and where it is from."""
    return [
        {
            "name": array.name,
            "description": array.description,
            "table": Table(
                f"Spec of {array.name}",
                ("key", "value", "source"),
                [(setting.key, setting.value, setting.source) for setting in array.settings],
                kind="words",
            )
            if array.settings
            else None,
        }
        for array in arrays
    ]


def made_by(command: str) -> dict[str, Any]:
    """Versions, and the command."""
    rows = [
        ("accelarray", version()),
        ("execution model", f"version {MODEL_VERSION}"),
        ("Python", platform.python_version()),
        ("SimPy", installed("simpy")),
        ("NumPy", installed("numpy")),
    ]
    return {"command": command, "table": Table("Versions", ("what", "version"), rows, kind="words")}

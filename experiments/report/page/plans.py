"""Plan maps: layers down, levels across, a coloured cell for each type."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, islice

from experiments.pictures.plan_map import SPLITS, describe, kinds_of, stretches
from experiments.report.page.markup import Markup, join, number, section, table, tag
from hardware import Array, Group
from planners import OBJECTIVES, Partition, Plan, Split

MOST_COLUMNS = 64


@dataclass(frozen=True, slots=True)
class Column:
    """One split: which accelerators it is about, its level, and what it does."""

    about: str
    level: int
    split: Split


def plan_maps(network: str, plans: list[tuple[Array, list[Plan]]]) -> Markup:
    """For each array, a map for each plan of one network."""
    legend = tag(
        "ul",
        *(
            tag("li", tag("span", name, class_=f"key {name}"), SPLITS[name].removeprefix("the "))
            for name in kinds_of(*(plan for _, of in plans for plan in of))
        ),
        class_="legend",
    )
    about = (
        "Which dimension of each layer a split cuts, from the top of the array down. "
        "A number is the first group's share where that is not one half."
    )
    parts = [
        join((tag("h3", array.name), *(_map(plan, array) for plan in of))) for array, of in plans
    ]
    return section("plans", f"Plans for {network}", tag("p", about), legend, *parts)


def columns(split: Split | None, group: Group) -> Iterator[Column]:
    """Splits from the top down; where two halves differ, the first's and then the second's."""
    for top, level, chain in stretches(split, group, 0):
        about = describe(top, chain)
        for i, one in enumerate(chain):
            yield Column(about, level + i, one)


def _map(plan: Plan, array: Array) -> Markup:
    title = f"{plan.planner}, {plan.network} on {array.name}, batch {plan.batch}"
    if plan.root is None:
        return tag("p", f"{title}: a single accelerator, nothing is split.")
    shown = list(islice(columns(plan.root, array.group), MOST_COLUMNS + 1))
    rest = len(shown) > MOST_COLUMNS
    shown = shown[:MOST_COLUMNS]
    rows = [
        [name, *(_cell(column.split.partitions[v]) for column in shown)]
        for v, name in enumerate(plan.nodes)
    ]
    unit = OBJECTIVES[plan.objective].unit
    cost = [f"cost [{unit}]", *(number(column.split.cost, ".3g") for column in shown)]
    return tag(
        "details",
        tag("summary", plan.planner),
        table(title, _head(shown), rows, [cost], kind="map"),
        tag("p", f"The first {MOST_COLUMNS} splits are shown.", class_="note") if rest else "",
        open="" if plan.planner == "accpar" else None,
    )


def _head(shown: list[Column]) -> Markup:
    """Two rows: what a run of splits is about, and the level of each."""
    numbered = enumerate(shown)
    runs = [list(run) for _, run in groupby(numbered, lambda c: (c[1].about, c[1].level - c[0]))]
    groups = [
        tag("th", run[0][1].about, colspan=len(run), scope="colgroup", class_="group")
        for run in runs
    ]
    levels = [tag("th", column.level, scope="col") for column in shown]
    top = tag("tr", tag("th", "layer", rowspan=2, scope="col"), *groups)
    return join((top, tag("tr", *levels)))


def _cell(partition: Partition) -> Markup:
    """A cell for ``row``: the type, and the share where it is not one half."""
    share = "" if partition.share == 0.5 else number(partition.share, ".3g")
    return tag("span", str(partition.type), share, class_=f"type {partition.type}")

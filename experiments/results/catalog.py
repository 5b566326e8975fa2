"""What there is: names to go through, and a table about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

from experiments.options import option_rows
from experiments.output import fitted, table, text_of
from experiments.results.html import html_of
from hardware import catalog_models, catalog_names, catalog_rows
from planners import BASELINES, JUDGED, PlanError, load_planner, planner_names
from simulator.asynchronous.registry import ALGORITHMS
from workloads import LARGE, NETWORKS, load_network

if TYPE_CHECKING:
    import pandas

KINDS = ("networks", "planners", "methods", "arrays", "devices", "stacks", "options")
LISTED = ("weights", "macs", "flag", "values")
"""Columns of a list that a narrow terminal goes without."""
SHOWN = 6
"""Names in a ``repr``."""


@dataclass(frozen=True, slots=True, repr=False)
class Names(Sequence[str]):
    """Networks, planners, arrays or devices: their names, and what each is."""

    kind: str
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[str, ...]: ...
    def __getitem__(self, at: int | slice) -> str | tuple[str, ...]:
        return self.names[at]

    def __repr__(self) -> str:
        more = ", …" if len(self) > SHOWN else ""
        return f"<{len(self)} {self.kind}: {', '.join(self.names[:SHOWN])}{more}>"

    def _repr_html_(self) -> str:
        return html_of([table(self.kind, rows_of(self.kind))])

    def summary(self) -> str:
        """What ``accelarray list`` prints."""
        return text_of(*fitted(self.kind, rows_of(self.kind), LISTED))

    def to_frame(self) -> pandas.DataFrame:
        """A row for each: its name and what it is, as ``accelarray list`` has them."""
        import pandas

        return pandas.DataFrame(rows_of(self.kind))


def names_of(kind: str) -> Names:
    """One of ``KINDS``; nothing is loaded but names."""
    if kind == "networks":
        return Names(kind, (*NETWORKS, *LARGE))
    if kind == "planners":
        return Names(kind, tuple(all_planners()))
    if kind == "options":
        return Names(kind, tuple(row["key"] for row in option_rows()))
    if kind == "methods":
        return Names(kind, tuple(ALGORITHMS))
    return Names(kind, tuple(catalog_names(kind.removesuffix("s"))))


def rows_of(kind: str) -> list[dict[str, Any]]:
    """One of KINDS: a row for each, with its name and what it is."""
    listed = {
        "networks": _list_networks,
        "planners": _list_planners,
        "methods": _list_methods,
        "arrays": _list_arrays,
        "devices": _list_devices,
        "stacks": _list_stacks,
        "options": option_rows,
    }
    return listed[kind]()


def _list_networks() -> list[dict[str, Any]]:
    networks = [load_network(name) for name in (*NETWORKS, *LARGE)]
    return [
        {
            "name": n.name,
            "weights": n.weights,
            "parameters": n.parameters,
            "macs": n.macs,
            "about": n.description,
        }
        for n in networks
    ]


def _list_planners() -> list[dict[str, Any]]:
    return [{"name": name, "about": _about_planner(name)} for name in all_planners()]


def _list_methods() -> list[dict[str, Any]]:
    return [
        {"name": name, "about": _first_line(method).replace("``", ""), "source": method.source}
        for name, method in ALGORITHMS.items()
    ]


def _about_planner(name: str) -> str:
    """The first line of its documentation; why there is none, where it cannot be loaded."""
    if name in JUDGED:
        return JUDGED[name].about
    try:
        return _first_line(load_planner(name))
    except PlanError as error:
        return str(error)


def all_planners() -> list[str]:
    """Every planner there is, the baselines last."""
    return [*planner_names(), *BASELINES, *JUDGED]


def _first_line(thing: object) -> str:
    return (thing.__doc__ or "").strip().partition("\n")[0]


def _list_arrays() -> list[dict[str, Any]]:
    models = catalog_models()
    return [
        {"name": name, "accelerators": size, "execution": models[name], "about": about}
        for name, size, about in catalog_rows("array")
    ]


def _list_devices() -> list[dict[str, Any]]:
    rows = catalog_rows("device")
    return [{"name": name, "cores": size, "about": about} for name, size, about in rows]


def _list_stacks() -> list[dict[str, Any]]:
    rows = catalog_rows("stack")
    return [{"name": name, "year": str(year), "about": about} for name, year, about in rows]

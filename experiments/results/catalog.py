"""What there is: names to go through, and a table about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, overload

from experiments.options import option_rows
from experiments.output import fitted, frame_of, table, text_of
from experiments.results.formats import html_of
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
        return frame_of(rows_of(self.kind))


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
    if kind == "options":
        return [*option_rows()]
    if kind in SIZES:
        return _specs(kind)
    row = {"networks": _network, "planners": _planner, "methods": _method}[kind]
    return [row(name) for name in names_of(kind)]


def _network(name: str) -> dict[str, Any]:
    found = load_network(name)
    return {
        "name": found.name,
        "weights": found.weights,
        "parameters": found.parameters,
        "macs": found.macs,
        "about": found.description,
    }


def _planner(name: str) -> dict[str, Any]:
    """The first line of its documentation; why there is none, where it cannot be loaded."""
    try:
        about = JUDGED[name].about if name in JUDGED else _first_line(load_planner(name))
    except PlanError as error:
        about = str(error)
    return {"name": name, "about": about}


def _method(name: str) -> dict[str, Any]:
    method = ALGORITHMS[name]
    about = _first_line(method).replace("``", "'")
    values = ((one.name, one.default) for one in fields(method))
    words = {True: "yes", False: "no"}
    options = [
        f"{key}={words[value] if isinstance(value, bool) else value}" for key, value in values
    ]
    told = f" Options: {', '.join(options)}." if options else ""
    return {"name": name, "about": about + told, "source": method.source}


def _first_line(thing: object) -> str:
    return (thing.__doc__ or "").strip().partition("\n")[0]


SIZES = {"arrays": "accelerators", "devices": "cores", "stacks": "year"}
"""What the catalog says of the size of each kind of its specs."""


def _specs(kind: str) -> list[dict[str, Any]]:
    models = catalog_models() if kind == "arrays" else {}
    return [
        {
            "name": name,
            SIZES[kind]: str(size) if kind == "stacks" else size,
            **({"execution": models[name]} if models else {}),
            "about": about,
        }
        for name, size, about in catalog_rows(kind.removesuffix("s"))
    ]


def all_planners() -> list[str]:
    """Every planner there is, the baselines last."""
    return [*planner_names(), *BASELINES, *JUDGED]

"""What there is: names to go through, and a table about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

if TYPE_CHECKING:
    import pandas

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
        from experiments.commands.catalog import rows_of
        from experiments.face.html import html_of
        from experiments.output import table

        return html_of([table(self.kind, rows_of(self.kind))])

    def summary(self) -> str:
        """What ``accelarray list`` prints."""
        from experiments.commands.catalog import LISTED, rows_of
        from experiments.output import fitted, text_of

        return text_of(*fitted(self.kind, rows_of(self.kind), LISTED))

    def to_frame(self) -> pandas.DataFrame:
        """A row for each: its name and what it is, as ``accelarray list`` has them."""
        import pandas

        from experiments.commands.catalog import rows_of

        return pandas.DataFrame(rows_of(self.kind))


def names_of(kind: str) -> Names:
    """One of ``experiments.commands.catalog.KINDS``; nothing is loaded but names."""
    from experiments.commands.catalog import all_planners
    from hardware import catalog_names
    from workloads import LARGE, NETWORKS

    if kind == "networks":
        return Names(kind, (*NETWORKS, *LARGE))
    if kind == "planners":
        return Names(kind, tuple(all_planners()))
    if kind == "methods":
        from simulator.asynchronous.registry import ALGORITHMS

        return Names(kind, tuple(ALGORITHMS))
    return Names(kind, tuple(catalog_names(kind.removesuffix("s"))))

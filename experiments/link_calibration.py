"""Links of an array, calibrated with what nccl-tests or rccl-tests printed."""

from __future__ import annotations

import json
import math
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from statistics import median
from typing import Any

import numpy as np
from rich.table import Table

from experiments.collective import rates
from experiments.files.measurements import Measured, Timed
from experiments.measured.fit import least
from experiments.output import UsageError, deliver, spec_toml, table_of
from experiments.results.result import Result
from experiments.terms import duration
from hardware import Stack, Wires, load_array
from hardware.spec import Entry, Settings, load_settings
from hardware.topology import protocol
from simulator import PICOSECONDS, offer
from simulator.collectives.choice import members_of

ROUNDS, CLOSE, GRID, NOTHING = 4, 0.02, 12, 1e-5
"""Of the search: turns through the constants, how near each comes, of its range; points that are
looked at first, and what is no gain."""
LARGE, ENOUGH = 16e6, 3
"""Bytes of messages above which most go by one protocol; so many of them tell its constants."""
LARGEST_HOST = 16
"""GPUs of a host at the most (DGX-2): an array's node of more is a rack, and hosts its trays."""
BY_NCCL = Stack(ring_steps_s=(3.4e-6, 14e-6))
"""As what was measured, with NCCL's steps: RCCL has its rings and trees."""
RANGES = {"efficiency": (0.01, 1.0), "latency_s": (1e-8, 1e-2), "slower": (0.05, 20.0)}
"""In which each constant is."""


@dataclass(frozen=True, slots=True)
class Link:
    """What a level's links are found to be: the part of its bandwidth, and seconds a message.

    Small messages go by protocols (NCCL's LL and LL128): their start and steps are so much
    ``slower`` than they were.
    """

    efficiency: float = 0.8
    latency_s: float = 1e-5
    slower: float = 1.0


@dataclass(frozen=True, slots=True)
class Compared:
    """One measured collective, on the array as it is, and with the constants that were found."""

    collective: str
    bytes: float
    measured_s: float
    busbw_gb_per_s: float | None
    before_s: float
    fitted_s: float

    @property
    def error(self) -> float:
        """Signed and relative."""
        return self.fitted_s / self.measured_s - 1


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class WiresResult(Result):
    """A level of an array's links whose constants are fitted on measured collectives."""

    measured: str
    """The file."""
    array: str
    level: int
    ranks: int
    nodes: int
    link: Link
    fits: tuple[Compared, ...]
    constants: dict[str, Any]
    """By their keys, as specs have them."""
    settings: Settings
    """Those of the array's topology, with the constants."""
    notes: tuple[str, ...] = ()
    """What was assumed, and where the constants are to be doubted."""

    def title(self) -> str:
        """The level, and on how many collectives."""
        what = f"{self.fits[0].collective} of {self.ranks} ranks"
        return f"Links of level {self.level} of {self.array}, calibrated by {what}"

    def to_dict(self) -> dict[str, Any]:
        """What ``accelarray papers calibrate --format json`` prints."""
        about = {"array": self.array, "nodes": self.nodes, "ranks": self.ranks}
        told = {"constants": self.constants, "notes": list(self.notes)}
        return about | told | {"rows": self.rows()}

    def rows(self) -> list[dict[str, Any]]:
        """A line for each measured collective."""
        return [asdict(one) | {"error": one.error} for one in self.fits]

    def tables(self) -> list[Table | str]:
        """The rows, then the constants and how well they fit."""
        columns = "bytes", "measured", "busbw [GB/s]", "as it was", "fitted", "error"
        table = table_of(self.title(), columns, ())
        for one in self.fits:
            rate = "" if one.busbw_gb_per_s is None else f"{one.busbw_gb_per_s:.4g}"
            times = (duration(one.measured_s), rate, duration(one.before_s), duration(one.fitted_s))
            table.add_row(f"{one.bytes:,.0f}", *times, f"{one.error:+z.1%}")
        before = median(abs(one.before_s / one.measured_s - 1) for one in self.fits)
        after = median(abs(one.error) for one in self.fits)
        found = self.link
        said = [
            f"efficiency {found.efficiency:.3f}, latency {duration(found.latency_s)}, of "
            f"{self.ranks} ranks on {self.nodes} node{'s' * (self.nodes > 1)}.",
            f"Median error {after:.1%}; with the constants as they were {before:.1%}.",
        ]
        if after > before:
            said.append("The constants as they were fit better: take more rows, or keep those.")
        if any(key.endswith(".protocols") for key in self.constants):
            said.append(f"Protocols of small messages take {found.slower:.3g} times as long.")
        return [table, *said, *self.notes]

    def to_toml(self) -> str:
        """An array's file with these links."""
        about = f"{self.array} with links calibrated by {os.path.basename(self.measured)}"
        spec = {"kind": "array", "extends": self.array, "description": about}
        sources = {"execution": "its wires are described, which the deployed model has"}
        topology, levels = dict[str, Any](), defaultdict[str, dict[str, Any]](dict)
        for key, entry in self.settings.items():
            head, _, name = key.rpartition(".")
            (topology if head == "topology" else levels[head])[name] = entry.value
            sources |= {key: entry.source} if entry.source else {}
        topology |= {"levels": [*levels.values()]}
        return spec_toml(spec | {"execution": "deployed", "topology": topology}, sources)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write an array with these links (.toml), for ``array=``."""
        target = os.fspath(path)
        if not target.endswith(".toml"):
            raise UsageError(f"--output {target}: an array's file ends in .toml")
        deliver(self.to_toml(), target)


def calibrated_wires(
    measured: Measured, array: str, progress: Callable[[str], None] = lambda done: None
) -> WiresResult:
    """Fit the level of an array's links that the measured collectives cross; UsageError.

    That is the innermost one of ranks on one node, else the outermost. Constants are those of the
    least sum of squared logarithms of ours over the measured time.
    """
    written = load_settings(array, "array")[2]
    settings = {key: entry for key, entry in written.items() if key.startswith("topology.")}
    levels = {key.split(".")[2] for key in settings if key.startswith("topology.levels.")}
    if not levels:
        raise UsageError(f"{array}: has no topology.levels, whose links could be calibrated")
    measured, notes = _on_nodes(measured, array, written)
    level = 0 if measured.nodes == 1 else max(map(int, levels))
    at = f"topology.levels.{level}"
    many = [f"nodes={measured.nodes}"] if measured.nodes > 1 else []

    def seconds(changes: Sequence[str], rows: Sequence[Timed] = measured.rows) -> list[float]:
        wires = Wires(replace(load_array(array, [*many, *changes]), stack=BY_NCCL))
        members = members_of(wires, _members(measured, wires, array))
        found = (offer(wires, one.collective, members, one.bytes) for one in rows)
        return [made.alone_ps / PICOSECONDS for made in found]

    def changed(link: Link) -> list[str]:
        new = _changes(settings, at, link).items()
        return [f"{key}={json.dumps(value)}" for key, value in new]

    def loss(rows: Sequence[Timed], link: Link) -> float:
        took = zip(seconds(changed(link), rows), rows, strict=True)
        progress("")
        return math.fsum(math.log(ours / row.seconds) ** 2 for ours, row in took)

    tier = load_array(array, many).topology.levels[level]
    own = settings.get(f"{at}.efficiency")
    was_s = max(tier.latency_s or Link().latency_s, RANGES["latency_s"][0])
    before, link = seconds([]), Link(float(own.value) if own else 1.0, was_s)
    if seconds(changed(Link(link.efficiency / 2, link.latency_s * 2))) == seconds(changed(link)):
        said = f"its {measured.ranks} ranks are the first cores of {array}, which send nothing over"
        raise UsageError(f"{measured.path}: {said} links of level {level}; take more ranks")
    link = _fitted(loss, link, measured.rows, protocols=f"{at}.protocols" in settings)
    fits = tuple(
        Compared(
            *(row.collective, row.bytes, row.seconds),
            rates(row.collective, measured.ranks, row.bytes, row.seconds)["busbw_gb_per_s"],
            *(was, now),
        )
        for row, was, now in zip(measured.rows, before, seconds(changed(link)), strict=True)
    )
    new = _changes(settings, at, link)
    constants = {key: value for key, value in new.items() if not key.endswith(".half_size")}
    return WiresResult(
        *(measured.path, array, level, measured.ranks, measured.nodes, link, fits, constants),
        _with(settings, new, measured),
        (*notes, *_doubts(link, len(measured.rows))),
    )


def _fitted(
    loss: Callable[[Sequence[Timed], Link], float],
    link: Link,
    rows: Sequence[Timed],
    *,
    protocols: bool,
) -> Link:
    """The constants that rows tell.

    Where small messages go by ``protocols``, large ones tell efficiency and latency, those of
    ``LARGE`` bytes or less then how slow protocols are, and in the end all rows tell all three.
    """
    small = [row for row in rows if row.bytes <= LARGE]
    large = [row for row in rows if row.bytes > LARGE]
    split = protocols and len(large) >= ENOUGH
    link = _least(partial(loss, large if split else rows), link, [*RANGES][:2])
    if split and small:
        link = _least(partial(loss, small), link, [*RANGES][2:])
        link = _least(partial(loss, rows), link, [*RANGES], first=1)
    return link


def _on_nodes(measured: Measured, array: str, written: Settings) -> tuple[Measured, list[str]]:
    """Ranks by the array's nodes, and what is assumed: hosts are trays of nodes that are racks."""
    nodes, place = int(written["nodes"].value) if "nodes" in written else 1, load_array(array)
    each = place.topology.levels[0].members or Wires(place).cores // nodes
    if measured.nodes == 1 or each <= LARGEST_HOST:
        return measured, []
    racks = [0]
    for many in measured.on_nodes:
        racks += [0] * (racks[-1] + many > each)
        racks[-1] += many
    note = f"Hosts are taken for trays of {array}'s nodes of {each}, which they fill one by one."
    return replace(measured, on_nodes=tuple(racks)), [note]


def _doubts(link: Link, rows: int) -> Iterator[str]:
    """Why the constants are to be doubted."""
    if rows < ENOUGH:
        yield f"Few rows ({rows}): {ENOUGH} say more than their own times."
    worst = RANGES["efficiency"][0], RANGES["latency_s"][1]
    if link.efficiency < 1.01 * worst[0] or link.latency_s > worst[1] / 1.01:
        yield "A constant ended at its bound: these links are far too slow. Are the times in us?"


def _changes(settings: Settings, at: str, link: Link) -> dict[str, Any]:
    """The level's values with these constants.

    ``half_size`` is a latency in other words: one of the two is enough.
    """
    new: dict[str, Any] = {
        f"{at}.efficiency": float(f"{link.efficiency:.4g}"),
        f"{at}.latency": f"{link.latency_s * 1e6:.4g} us",
    }
    new |= {f"{at}.half_size": "1 B"} if f"{at}.half_size" in settings else {}
    if (key := f"{at}.protocols") in settings:
        known = map(protocol, settings[key].value)
        new[key] = [
            f"{one.name} {one.algorithm}: {one.start_s * link.slower * 1e6:.4g} us + "
            f"{one.step_s * link.slower * 1e6:.4g} us a step at {one.share:g}"
            for one in known
        ]
    return new


def _with(settings: Settings, new: Mapping[str, Any], measured: Measured) -> Settings:
    """The topology with new values, each key behind the others of its table."""
    source = f"accelarray papers calibrate: {len(measured.rows)} rows of {measured.path}"
    changed = {key: Entry(value, measured.path, source) for key, value in new.items()}
    return dict(sorted((settings | changed).items(), key=lambda item: item[0].rpartition(".")[0]))


def _members(measured: Measured, wires: Wires, array: str) -> np.ndarray[Any, Any]:
    """Cores of the ranks: the first ones of each node."""
    each = wires.cores // measured.nodes
    if max(measured.on_nodes) > each:
        raise UsageError(
            f"{measured.path}: {max(measured.on_nodes)} ranks on a node; {array} has {each} a node"
        )
    return np.array([node * each + i for node, n in enumerate(measured.on_nodes) for i in range(n)])


def _least(loss: Callable[[Link], float], link: Link, names: Sequence[str], first: int = 0) -> Link:
    """The constants of the least loss: each in turn, on a logarithmic scale.

    Where a constant makes no difference it stays as it was. The loss may be flat far from its
    least value, as a latency that other times hide: so a grid is looked at first. It is of a
    quarter of the range in the ``first`` turn 1, of a quarter of that in the next.
    """
    for turn in range(first, ROUNDS):
        for name in names:
            low, high = map(math.log, RANGES[name])
            middle, wide = math.log(getattr(link, name)), (high - low) / 4**turn

            def at(log: float, link: Link = link, name: str = name) -> float:
                return loss(replace(link, **{name: math.exp(log)}))

            ends = max(low, middle - wide), min(high, middle + wide)
            step = (ends[1] - ends[0]) / GRID
            near = min((middle, *(ends[0] + k * step for k in range(GRID + 1))), key=at)
            around = max(ends[0], near - step), min(ends[1], near + step)
            found = least(at, *around, CLOSE * wide)
            if at(found) < at(middle) - NOTHING:
                link = replace(link, **{name: math.exp(found)})
    return link

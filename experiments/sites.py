"""Where a run's resources are in the array: its boards and links, and what to call them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from experiments.output import UsageError
from simulator import Branch, Leaf

if TYPE_CHECKING:
    from simulator import Timeline

BOARD = -1
"""The level of a board, below every split."""


@dataclass(frozen=True, slots=True)
class Site:
    """A board, or the link of a split, of one run.

    ``level`` is a link's (0 at the top), or BOARD. It stands for
    ``multiplicity`` alike ones, each with ``boards`` boards of ``devices``;
    ``first`` is the number, in the whole array, of the first board under the
    first of them. ``above`` names the links over it, top first. ``resources``
    are indices into the timeline's: a link's, or a board's cores and HBMs.
    """

    name: str
    level: int
    first: int
    boards: int
    multiplicity: int
    devices: tuple[str, ...]
    above: tuple[str, ...]
    resources: range


def sites(timeline: Timeline) -> list[Site]:
    """Every board and link of a run, parents before children, in the order of its resources."""
    found: list[Site] = []

    def visit(node: Branch | Leaf, first: int, above: tuple[str, ...]) -> None:
        start = found[-1].resources.stop if found else 0
        leaf = isinstance(node, Leaf)
        count = node.chips * (node.cores_per_chip + 1) if isinstance(node, Leaf) else 1
        resource = timeline.resources[start].name
        name = resource.partition(".")[0] if leaf else resource
        level = BOARD if isinstance(node, Leaf) else node.level
        boards, devices = _under(node)
        resources = range(start, start + count)
        found.append(Site(name, level, first, boards, node.multiplicity, devices, above, resources))
        if isinstance(node, Branch):
            for half in node.halves:
                visit(half, first, (*above, name))
                first += _under(half)[0]

    visit(timeline.program.root, 0, ())
    return found


def _under(node: Branch | Leaf) -> tuple[int, tuple[str, ...]]:
    """Boards under one such node in the whole array, and their devices."""
    if isinstance(node, Leaf):
        return 1, (node.device.name,)
    halves = [_under(half) for half in node.halves]
    boards = sum(count for count, _ in halves) * (2 if len(halves) == 1 else 1)
    return boards, tuple(dict.fromkeys(name for _, names in halves for name in names))


def chosen(everything: Sequence[Site], devices: str) -> list[Site]:
    """The boards that ``devices`` names and the links above them; raises UsageError.

    ``devices`` lists boards by name, number or range: ``board0,board3``, ``0,3`` or ``0-7``.
    """
    boards = {site.name: site for site in everything if site.level == BOARD}
    wanted = [boards[f"board{number}"] for number in _numbers(devices, len(boards))]
    names = {site.name for site in wanted} | {name for site in wanted for name in site.above}
    return [site for site in everything if site.name in names]


def _numbers(text: str, boards: int) -> list[int]:
    numbers: list[int] = []
    for part in text.split(","):
        first, dash, last = (end.strip().removeprefix("board") for end in part.partition("-"))
        ends = (first, last if dash else first)
        if not all(end.isascii() and end.isdigit() and len(end) < 9 for end in ends):
            raise UsageError(
                f"--devices {text!r}: expected names or numbers of boards, as board0,board3 or 0-7"
            )
        low, high = map(int, ends)
        if not low <= high < boards:
            raise UsageError(f"--devices {text!r}: the array's boards are 0...{boards - 1}")
        numbers += range(low, high + 1)
    return numbers


def labels(everything: Sequence[Site], timeline: Timeline, *, folded: bool) -> dict[str, str]:
    """Per site's name, what to call it; no two alike.

    A class of a folded run is called by how many it stands for, a board or
    link of an unfolded one by the numbers of its boards.
    """
    called = {
        site.name: _class_label(site, everything, timeline)
        if folded
        else _single_label(site, timeline)
        for site in everything
    }
    uses = Counter(called.values())
    return {
        site.name: called[site.name]
        + (f", from board {site.first}" if uses[called[site.name]] > 1 else "")
        for site in everything
    }


def _class_label(site: Site, everything: Sequence[Site], timeline: Timeline) -> str:
    if site.level == BOARD:
        cores = [timeline.resources[i] for i in site.resources]
        number = sum(core.multiplicity for core in cores if core.kind == "core")
        return f"{site.multiplicity:,} x {site.devices[0]}, {number:,} cores"
    label = f"link level {site.level}"
    if site.multiplicity > 1:
        label += f", {site.multiplicity:,} x"
    if any(s.devices != site.devices for s in everything if s.level == site.level):
        label += f" ({', '.join(site.devices)})"
    return label


def _single_label(site: Site, timeline: Timeline) -> str:
    if site.level == BOARD:
        cores = sum(timeline.resources[i].kind == "core" for i in site.resources)
        return f"{site.name}, {site.devices[0]}, {cores:,} cores"
    return f"link level {site.level}, boards {site.first}-{site.first + site.boards - 1}"

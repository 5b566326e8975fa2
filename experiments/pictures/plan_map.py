"""A plan as a map: layers by levels, a block for every stretch of the tree with alike halves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from experiments.output import UsageError
from experiments.pictures.figures import HANDLE, corner_legend, inches_of, new_figure, shortened
from experiments.pictures.palette import TYPES
from hardware import Array, Group
from planners import Partition, Pipeline, Plan, Split
from planners.plan.updates import sharded

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SPLITS = {"I": "the batch", "II": "the inputs", "III": "the outputs", "IV": "the groups"} | {
    "V": "positions"
}

ROW, CELL, WIDE_CELL, GAP = 0.165, 0.34, 0.72, 0.3
"""Inches: a layer, a level where all shares are one half and where not, between blocks."""
LEFT_MARGIN, TOP, BOTTOM, SIZE = 0.15, 1.0, 0.5, 6.5
LONGEST_NAME = 32
MOST_INCHES = 400
"""More pixels a side would not fit into a PNG."""


class Block(NamedTuple):
    """A chain of splits with alike halves, or one split of unlike halves; ``x`` in inches.

    Of a stage it has ``rows`` layers from number ``first`` on; one that is on a
    single accelerator has no splits.
    """

    title: list[str]
    level: int
    chain: list[Split]
    x: float
    cell: float
    first: int = 0
    rows: int = 0

    @property
    def width(self) -> float:
        """Inches; never narrower than its title."""
        title = [inches_of(line, SIZE) for line in self.title]
        return max(self.cell * max(len(self.chain), 1), *title)


def stretches(
    split: Split | None, group: Group, level: int
) -> Iterator[tuple[Group, int, list[Split]]]:
    """Runs of splits whose halves are alike, and single splits whose halves are not."""
    if split is None:
        return
    top, chain, first_level = group, [], level
    while split is not None and len(split.halves) == 1:
        chain.append(split)
        split, group, level = split.halves[0], group.halves()[0], level + 1
    if chain:
        yield top, first_level, chain
    if split is not None:
        yield group, level, [split]
        for half, side in zip(split.halves, group.halves(), strict=True):
            yield from stretches(half, side, level + 1)


def describe(group: Group, chain: list[Split]) -> str:
    """What a stretch splits: one group in halves, or one group from another."""
    if len(chain[0].halves) == 1:
        return f"{_words(group)}, in halves"
    return " | ".join(map(_words, group.halves()))


def _words(group: Group) -> str:
    unit = "" if group.unit == "board" else f"{group.unit}s of "
    return " + ".join(f"{count} {unit}{device.name}" for device, count in group.kinds)


def plot_plan(plan: Plan, array: Array) -> Figure:
    """Draw a plan, layers down; raises UsageError when there is nothing to draw or too much."""
    from matplotlib.patches import Patch

    if plan.root is None and plan.pipeline is None:
        raise UsageError("--plot: a single accelerator: nothing is split")
    blocks = _stages(plan.pipeline, array) if plan.pipeline else _blocks(plan, array)
    left = LEFT_MARGIN + max(inches_of(name, SIZE) for name in _rows(plan))
    width = left + blocks[-1].x + blocks[-1].width + GAP
    height = TOP + BOTTOM + (tall := ROW * len(plan.nodes))
    if max(width, height) > MOST_INCHES:
        raise UsageError(
            f"--plot: {len(plan.nodes):,} layers by {sum(len(b.chain) for b in blocks):,} levels "
            "do not fit into a picture; use --format json"
        )
    title = f"{plan.network}, {plan.planner} by {plan.objective} on {array.name}"
    model = "deployed" if array.group.leaf == "core" else "published"
    subtitle = f"batch {plan.batch}, {model}; "
    if plan.pipeline is not None:
        subtitle += f"{plan.pipeline.schedule}, {plan.pipeline.micro_batches} micro-batches; "
    subtitle += "type, and the first half's share where it is not one half"
    if plan.updates:
        subtitle += "; * update sharded"
    longest = max(inches_of(title, 9), inches_of(subtitle, SIZE))
    labels = {kind: f"{kind}: splits {SPLITS[kind]}" for kind in kinds_of(plan)}
    legend = sum(HANDLE + inches_of(label, SIZE) for label in labels.values())
    width = max(width, left + longest, left + legend)
    figure = new_figure(width, height)
    box = (left / width, BOTTOM / height, 1 - left / width, tall / height)
    axes = figure.add_axes(box)
    axes.set_xlim(0, width - left)
    axes.set_ylim(len(plan.nodes) - 0.5, -0.5)
    axes.spines[:].set_visible(False)
    axes.set_xticks([])
    axes.set_yticks(range(len(plan.nodes)), _rows(plan), fontsize=SIZE, parse_math=False)
    axes.tick_params(length=0)
    for block in blocks:
        _draw(axes, block)
    for text, points, down in ((title, 9.0, 0.2), (subtitle, SIZE, 0.36)):
        figure.text(left / width, 1 - down / height, text, fontsize=points, parse_math=False)
    handles = [Patch(color=TYPES[kind], label=label) for kind, label in labels.items()]
    more = {"loc": "lower left", "fontsize": SIZE, "borderaxespad": 0.3, "borderpad": 0.2}
    corner_legend(figure, handles, (left / width, 0), len(handles), **more)
    return figure


def _rows(plan: Plan) -> list[str]:
    """What each layer is called; one whose update is sharded has a star."""
    shared, names = sharded(plan.updates), [shortened(name, LONGEST_NAME) for name in plan.nodes]
    return [name + " *" * (number in shared) for number, name in enumerate(names)]


def _blocks(plan: Plan, array: Array) -> list[Block]:
    blocks: list[Block] = []
    x = 0.0
    for group, level, chain in stretches(plan.root, plan.group(array), 0):
        if len(chain[0].halves) == 1:
            title = [_words(group), "in halves, level"]
        else:
            first, second = map(_words, group.halves())
            title = [first, f"| {second}, level"]
        even = all(p.share == 0.5 for split in chain for p in split.partitions)
        title = [shortened(t, LONGEST_NAME) for t in title]
        blocks.append(Block(title, level, chain, x, CELL if even else WIDE_CELL))
        x += blocks[-1].width + GAP
    return blocks


def _stages(pipeline: Pipeline, array: Array) -> list[Block]:
    """The blocks of each stage's plan, beside its own layers."""
    found: list[Block] = []
    x = 0.0
    for k, stage in enumerate(pipeline.stages):
        place = pipeline.places[stage.place]
        many = f"{place.replicas} x " if place.replicas > 1 and not stage.plans else ""
        for replica, plan_ in enumerate(stage.plans or (stage.plan,)):
            own = array.part(*place.replica(replica))
            whole = Block([f"stage {k}", f"{many}{_words(own.group)}"], 0, [], 0.0, CELL)
            for block in _blocks(plan_, own) or [whole]:
                title = [f"stage {k}: {many}{block.title[0]}", *block.title[1:]]
                title = title if block.chain else block.title
                rows = len(stage.plan.nodes)
                here = block._replace(title=title, x=x, first=stage.first, rows=rows)
                found.append(here)
                x += here.width + GAP
    return found


def _draw(axes: Axes, block: Block) -> None:
    """One block's title, levels and cells."""
    from matplotlib.patches import Rectangle

    for line, text in enumerate(reversed(block.title)):
        y = -0.5 - (0.2 + line * 0.12) / ROW
        axes.text(block.x, y, text, fontsize=SIZE, parse_math=False, clip_on=False)
    if not block.chain:
        corner = (block.x, block.first - 0.5)
        axes.add_patch(Rectangle(corner, block.cell, block.rows, fc="#dddddd", ec="white", lw=0.6))
    for i, split in enumerate(block.chain):
        x = block.x + i * block.cell
        middle = x + block.cell / 2
        level = str(block.level + i)
        axes.text(middle, -0.5 - 0.06 / ROW, level, fontsize=SIZE, ha="center")
        for y, partition in enumerate(split.partitions, block.first):
            colour = TYPES[str(partition.type)]
            cell = Rectangle((x, y - 0.5), block.cell, 1, fc=colour, ec="white", lw=0.6)
            cell.set_alpha(lightness(partition))
            axes.add_patch(cell)
            axes.text(middle, y, words(partition), fontsize=SIZE, ha="center", va="center_baseline")


def words(partition: Partition) -> str:
    """The type; the first half's share where it is not one half."""
    if partition.share == 0.5:
        return str(partition.type)
    return f"{partition.type}  {partition.share:.4f}"


def lightness(partition: Partition) -> float:
    """How opaque a cell is: less, the further from equal its halves are."""
    return 0.9 - 1.1 * abs(partition.share - 0.5)


def kinds_of(*plans: Plan) -> list[str]:
    """The papers' three types, and the fourth where a plan has it."""
    used = {str(kind) for plan in plans for split in plan.splits() for kind in split.types}
    return [kind for kind in SPLITS if kind not in ("IV", "V") or kind in used]

"""Parts of a step: sums that come out, blocks found by hand, links by what they join."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from matplotlib.patches import Rectangle

from experiments.cli import main
from experiments.explain.busiest import link_kinds, links
from experiments.explain.paths import (
    BOUNDARY,
    BUCKETS,
    STEPS_END,
    Paths,
    Spent,
    by_block,
    by_kind,
    paths_of,
    repeated,
)
from experiments.explain.picture import plot_explanation
from experiments.explain.study import explain
from experiments.studies.case import Case, step_of
from hardware import Wires, load_array
from simulator import Execution, Timeline
from tests.strategies import timelines
from workloads import Layer, Network, Tensor, load_network

SHAPE = Tensor(4, 8, 8)


def chain(*names: str, shapes: dict[str, Tensor] | None = None) -> Network:
    """Convolutions of these names; ``shapes`` are of the outputs that are not alike."""
    layers, source = [], "input"
    for name in names:
        output = (shapes or {}).get(name, SHAPE)
        layers.append(Layer(name, "conv", (source,), SHAPE, output, 3))
        source = name
    return Network("chain", SHAPE, tuple(layers))


@pytest.mark.parametrize(
    ("names", "blocks"),
    [
        ("stem h.0.a h.0.b h.1.a h.1.b head", {"h.*": (2, ".a .b .a .b")}),
        ("h.0.a h.1.a h.2.a h.2.b h.3.a h.5.a", {"h.0..1,3,5": (4, ".a .a .a .a")}),
        ("s1.0.a s1.1.a s2.0.a s2.0.b s2.1.a s2.1.b", {"s1.*": (2, ""), "s2.*": (2, "")}),
        ("s1.0.a s1.1.a s2.0.a s2.1.a", {"s*": (2, ".0.a .1.a .0.a .1.a")}),
        ("h_0_a h_1_a", {"h_*": (2, "_a _a")}),
        ("conv1 conv2 conv3", {}),
        ("h.0.a h.1.b", {}),
        ("h.7.a h.7.b", {}),
    ],
)
def test_blocks_by_their_names(names: str, blocks: dict[str, tuple[int, str]]) -> None:
    found = repeated(chain(*names.split()).layers)
    assert {place.block: place.repeats for place in found.values()} == {
        block: count for block, (count, _) in blocks.items()
    }
    for block, (_, rests) in blocks.items():
        own = [place.rest for place in found.values() if place.block == block]
        assert own == (rests.split() or own)


def test_blocks_on_other_maps_or_of_other_operators_are_not_alike() -> None:
    names = ("h.0.a", "h.1.a", "h.2.a")
    wide = chain(*names, shapes={"h.1.a": Tensor(9, 8, 8)})
    assert len(repeated(wide.layers)) == 3  # channels may grow
    small = chain(*names, shapes={"h.1.a": Tensor(4, 4, 4)})
    assert set(repeated(small.layers)) == {"h.0.a", "h.2.a"}
    first, *rest = chain(*names).layers
    assert set(repeated([replace(first, kernel=1), *rest])) == {"h.1.a", "h.2.a"}


def test_what_a_block_and_a_kind_hold() -> None:
    network = chain("stem", "h.0.a", "h.0.b", "h.1.a", "h.1.b")
    spent = ["stem", "h.0.a", "h.1.b", "stem to h.0.a", "h.0.a to h.0.b", "h.1.b and 3 more"]
    layers = tuple(Spent(name, 2**i, 0, 100) for i, name in enumerate([*spent, STEPS_END, "odd"]))
    paths = Paths(1, (), 1, 0, layers)
    block, *others = by_block(network, paths)
    assert (block.name, block.count) == ("h.*", 2)
    assert block.layers == ("h.0.a", "h.1.b", "stem to h.0.a", "h.0.a to h.0.b")
    assert block.computing_ps == 2 + 4 + 8 + 16
    sums = {part.name: (part.computing_ps, part.waiting_ps) for part in block.parts}
    assert sums == {".a": (2, 100), ".b": (4, 100), "to .a": (8, 100), "to .b": (16, 100)}
    assert {part.name for part in others} == {"stem", "h.1.b and 3 more", STEPS_END, "odd"}
    kinds = {part.name: part.computing_ps for part in by_kind(network, paths)}
    assert kinds == {"conv": 1 + 2 + 4, BOUNDARY: 8 + 16, BUCKETS: 32, STEPS_END: 64, "other": 128}


@settings(max_examples=25, deadline=None)
@given(timelines())
def test_parts_and_kinds_of_links_are_all_there_is(timeline: Timeline) -> None:
    paths = paths_of(timeline)
    for parts in (by_kind(chain("a"), paths), by_block(chain("a"), paths)):
        assert sum(part.path_ps for part in parts) == timeline.iteration_ps
        spent = sum(part.computing_ps + part.exposed_ps + part.waiting_ps for part in parts)
        assert spent == timeline.iteration_ps * timeline.cores
        names = [name for part in parts for name in part.layers]
        assert len(names) == len(set(names))
    single = links(timeline)
    for kind in link_kinds(timeline):
        own = [link for link in single if link.kind == kind.kind]
        assert sum(link.count for link in own) == kind.used <= kind.count
        moved = sum(link.count * link.bytes for link in own)
        assert moved == pytest.approx(kind.bytes, rel=1e-5)
        assert max(link.utilisation for link in own) == pytest.approx(kind.busiest)
        assert 0 <= kind.utilisation <= kind.busiest * (1 + 1e-9)
    assert {kind.kind for kind in link_kinds(timeline)} == {link.kind for link in single}


TIERS = """
kind = "array"
[[devices]]
device = "tpu-v3"
count = 8
[topology]
joins = "boards"
[[topology.levels]]
kind = "switch"
members = 4
bandwidth = "50 GB/s"
[[topology.levels]]
kind = "ring"
members = 2
bandwidth = "25 GB/s"
"""


def test_links_by_what_they_join(tmp_path: Path) -> None:
    (tmp_path / "two.toml").write_text(TIERS)
    array = load_array(str(tmp_path / "two.toml"))
    deployed = Execution("deployed")
    case = Case(load_network("lenet"), "data_parallel", array, 64, execution=deployed)
    timeline = step_of(case)[1]
    kinds = {kind.kind: kind for kind in link_kinds(timeline)}
    assert set(kinds) == {"HBM", "inside boards", "tier 0, switch", "tier 1, ring"}
    assert kinds["tier 0, switch"].count == 2 * 8
    ring = kinds["tier 1, ring"]
    wires = timeline.program.wires
    assert isinstance(wires, Wires)
    across = [i for i, name in enumerate(wires.names) if name.startswith("tier 1")]
    assert ring.count == len(across)
    assert ring.bytes == pytest.approx(sum(timeline.link_bytes[across]))
    assert ring.utilisation == pytest.approx(
        ring.bytes / (25e9 * timeline.iteration_s * ring.count)
    )


def test_gpt2_is_a_few_rows(capsys: pytest.CaptureFixture[str]) -> None:
    args = ["explain", "gpt2", "--planner", "data_parallel", "--array", "tpu-v3-8", "--batch", "8"]
    assert main([*args, "--format", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    blocks = {row["block"]: row for row in data["blocks"]}
    assert (blocks["layer*"]["count"], len(blocks["layer*"]["layers"])) == (12, 96)
    own = [row for row in data["layers"] if row["layer"].startswith("layer")]
    whole = sum(row["computing_s"] for row in own)
    assert blocks["layer*"]["computing_s"] == pytest.approx(whole)
    for parts in (blocks["layer*"]["parts"], data["kinds"]):
        assert len(parts) < 12
    seconds = sum(row["critical_path_s"] for row in data["kinds"])
    assert seconds == pytest.approx(data["iteration_s"])
    assert {"HBM", "between chips, mesh"} == {kind["kind"] for kind in data["link_kinds"]}
    assert main(args) == 0
    assert "layer* (12 x)" in capsys.readouterr().out


def test_the_picture_has_blocks_as_rows() -> None:
    case = Case(load_network("gpt2"), "data_parallel", load_array("tpu-v3-8"), 8)
    case = replace(case, execution=Execution("deployed"))
    _, layers = plot_explanation(explain(case)).axes
    names = [label.get_text() for label in layers.get_yticklabels()]
    assert "layer*.fc1 (12 x)" in names
    assert {"head", "embedding"} < set(names)
    whole = sum(patch.get_width() for patch in layers.patches if isinstance(patch, Rectangle))
    assert whole == pytest.approx(1e3 * step_of(case)[1].iteration_s)

"""SPACX's layers by closed forms, and what is calibrated said to be."""

from math import fsum

import pytest

from experiments.papers import spacx
from experiments.papers.spacx import (
    CHIPLETS,
    EACH,
    LIGHT,
    LINK_BYTES_PER_S,
    MESH,
    SHARES,
    cost,
    medium,
    works,
)
from workloads import load_network


@pytest.mark.parametrize("network", ["alexnet", "resnet50"])
def test_a_layer_takes_what_its_fullest_link_carries(network: str) -> None:
    """Broadcast: each tensor once between chiplets. Mesh: weights x chiplets, inputs x elements."""
    light, mesh = [], []
    rate = CHIPLETS * EACH * spacx.MACS * spacx.CLOCK_HZ
    for layer in load_network(network).layers:
        if layer.weighted:
            sizes = (layer.weights, layer.input.elements, layer.output.elements)
            once = (s / (LINK_BYTES_PER_S * SHARES[k]) for s, k in zip(sizes, SHARES, strict=True))
            light.append(max(layer.macs / rate, *once))
            often = layer.weights * CHIPLETS + layer.input.elements * EACH
            ends = max(often, layer.output.elements) / LINK_BYTES_PER_S
            mesh.append(max(layer.macs / rate, ends))
    assert cost(network, medium(LIGHT)).seconds == pytest.approx(fsum(light), rel=1e-6)
    assert cost(network, medium(MESH)).seconds == pytest.approx(fsum(mesh), rel=1e-6)


def test_bytes_on_broadcast_links() -> None:
    """Between chiplets everything once; inside each all weights, its inputs and outputs."""
    expected = 0.0
    for layer in load_network("alexnet").layers:
        if layer.weighted:
            w, i, o = layer.weights, layer.input.elements, layer.output.elements
            expected += (w + i + o) + (CHIPLETS * w + i + o)
    assert cost("alexnet", medium(LIGHT)).link_bytes == pytest.approx(expected)


def test_transfers_move_each_tensor_once() -> None:
    for work in works("alexnet"):
        readers = [node for of in work.transfers[:2] for _, some in of.alike for node in some]
        assert sorted(readers) == sorted(2 * list(range(CHIPLETS * EACH)))


def test_the_calibration_meets_the_published_mean_and_is_said() -> None:
    figures = {key: spacx.FIGURES[key]().made() for key in ("calibrated", "mechanism")}
    found = figures["calibrated"]
    mean = fsum(row["ours"] for row in found.rows) / len(found.rows)
    assert mean == pytest.approx(0.78, abs=1e-3)
    assert all(said.startswith("CALIBRATED") for said in found.messages)
    rows = {(r["network"], r["planner"]): r["ours"] for r in figures["mechanism"].rows}
    assert all(rows[n, LIGHT] < rows[n, MESH] for n in spacx.NETWORKS)
    assert "The mechanism" in figures["mechanism"].messages[0]

"""Mamba-2's scan: counted as it is computed, planned and simulated end to end."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import accelarray
from planners.partition import IV, I, Shard, V, legal
from simulator.cost.training_operators import operators
from tests.planners.slow_sizes import sizes
from workloads import Builder, Layer, Network, NetworkError, Tensor, load_network, partition_graph

Floats = NDArray[np.float64]
HEADS, FEATURES, GROUPS, STATES, LENGTH, CHUNK = 4, 3, 2, 5, 12, 4
CONV = """{} CONV
inputs {}
in_ch {}
in_fmap_h 12
in_fmap_w 1
kernel 1
out_ch {}
out_fmap_h 12
out_fmap_w 1
pool 1
"""
SCAN = """scan STATE_SPACE
inputs x,B,C,steps
groups 2
chunk 4
"""


def mixer(
    heads: int = HEADS, features: int = FEATURES, states: int = STATES, length: int = LENGTH
) -> Network:
    net = Builder("mixer", 16, length)
    sizes_of = {"x": heads * features, "B": GROUPS * states, "C": GROUPS * states, "steps": heads}
    made = [net.conv(name, size, 1, after="input") for name, size in sizes_of.items()]
    net.layer("state_space", "scan", *made, groups=GROUPS, chunk=CHUNK)
    net.conv("out", 16, 1)
    return net.build()


def scan(network: Network) -> Layer:
    return next(layer for layer in network.layers if layer.name == "scan")


class Counting:
    """Products of matrices, with what they take."""

    def __init__(self) -> None:
        self.macs = 0

    def __call__(self, a: Floats, b: Floats) -> Floats:
        self.macs += a.shape[0] * a.shape[1] * b.shape[1]
        return a @ b


def by_chunks(x: Floats, b: Floats, c: Floats, decay: Floats) -> tuple[Floats, int]:
    """The paper's algorithm: chunks of positions in products of matrices."""
    times, made = Counting(), np.zeros_like(x)
    for group in range(GROUPS):
        states = [np.zeros((STATES, FEATURES))] * HEADS
        for first in range(0, LENGTH, CHUNK):
            at = slice(first, first + CHUNK)
            scores = times(c[at, group], b[at, group].T)
            for head in range(group * HEADS // GROUPS, (group + 1) * HEADS // GROUPS):
                logs = np.cumsum(decay[at, head])
                mask = np.tril(np.exp(logs[:, None] - logs[None, :]))
                inside = times(scores * mask, x[at, head])
                before = times(c[at, group] * np.exp(logs)[:, None], states[head])
                made[at, head] = inside + before
                left = np.exp(logs[-1] - logs)[:, None]
                new = times((b[at, group] * left).T, x[at, head])
                states[head] = np.exp(logs[-1]) * states[head] + new
    return made, times.macs


def one_by_one(x: Floats, b: Floats, c: Floats, decay: Floats) -> Floats:
    """The recurrence itself."""
    made = np.zeros_like(x)
    for head in range(HEADS):
        state, group = np.zeros((STATES, FEATURES)), head * GROUPS // HEADS
        for t in range(LENGTH):
            state = np.exp(decay[t, head]) * state + np.outer(b[t, group], x[t, head])
            made[t, head] = c[t, group] @ state
    return made


def test_forward_counts_what_the_algorithm_multiplies() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(LENGTH, HEADS, FEATURES))
    b, c = rng.normal(size=(2, LENGTH, GROUPS, STATES))
    decay = -rng.random(size=(LENGTH, HEADS))
    made, macs = by_chunks(x, b, c, decay)
    assert made == pytest.approx(one_by_one(x, b, c, decay))
    layer = scan(mixer())
    # 12 positions: 2 groups' scores of 4 x 5, 4 heads' outputs of 4 x 3, and twice states of 5 x 3
    assert layer.macs == macs == 12 * (2 * 20 + 4 * 12 + 2 * 4 * 15) == 2496
    assert (layer.weights, layer.parameters) == (0, 3 * HEADS)
    assert layer.output == layer.input == Tensor(12, 12)


def test_backward_is_each_products_two_errors_and_what_is_made_anew() -> None:
    network = mixer()
    (forward, backward) = partition_graph(network)[4].fused
    scores, states = 12 * 2 * 20, 12 * 4 * 15
    assert backward == 2 * forward + scores + states
    work = operators(network).nodes[4]
    whole = Shard(7, FEATURES * HEADS / GROUPS, FEATURES * HEADS / GROUPS, GROUPS)
    pairs = whole.rows * whole.inputs * whole.outputs * whole.groups
    assert work.forward[0].macs * pairs == pytest.approx(7 * forward)
    assert work.backward[0].macs * pairs == pytest.approx(7 * backward)
    assert work.gradient == ()
    assert [one.tensor for one in work.forward[0].writes] == ["scan", "scan's decays"]
    kept = work.forward[0].writes[1]
    assert (kept.each_bytes, kept.area) == (4.0, LENGTH)
    assert kept.channels * 12 == pytest.approx(HEADS)


def test_a_short_sequence_is_one_chunk_and_a_long_one_whole_chunks() -> None:
    assert scan(mixer(length=3)).macs == 3 * (2 * 3 * 5 + 4 * 3 * 3 + 2 * 60)
    assert scan(mixer(length=13)).macs == scan(mixer(length=16)).macs


def test_samples_and_groups_are_split_and_positions_are_not() -> None:
    node = partition_graph(mixer())[4]
    assert legal(node) == (I, IV)
    assert V in legal(partition_graph(mixer())[0])
    assert legal(node, Shard(groups=0.5)) == (I,)
    whole, half = sizes(node, 8, Shard()), sizes(node, 8, Shard(groups=0.5))
    assert half.flops == tuple(flops / 2 for flops in whole.flops)
    assert (half.operand, half.weights) == (whole.operand / 2, 0.0)


@pytest.mark.parametrize(
    ("sources", "groups", "words"),
    [
        (("x", "B", "C", "steps"), 3, "do not fit 3 groups"),
        (("x", "B", "x", "steps"), 2, "steps have a channel for each head"),
        (("x", "B", "C", "B"), 2, "steps have a channel for each head"),
        (("x", "B", "C"), 2, "a state_space takes x, B, C and steps, got 3 inputs"),
    ],
)
def test_what_does_not_fit_says_what_would(
    sources: tuple[str, ...], groups: int, words: str
) -> None:
    net = Builder("wrong", 16, LENGTH)
    for name, size in (("x", 12), ("B", 10), ("C", 10), ("steps", 4)):
        net.conv(name, size, 1, after="input")
    with pytest.raises(NetworkError, match=words):
        net.layer("state_space", "scan", *sources, groups=groups)


def test_a_layer_file_may_name_it(tmp_path: Path) -> None:
    made = (("x", 12), ("B", 10), ("C", 10), ("steps", 4))
    convs = [CONV.format(name, "input", 16, size) for name, size in made]
    text = "".join(["num_layers 6\n", *convs, SCAN, CONV.format("out", "scan", 12, 16)])
    path = tmp_path / "mixer.txt"
    path.write_text(text)
    assert load_network(str(path)).layers == mixer().layers
    path.write_text(text.replace("x,B,C,steps", "x,B,nothing,steps"))
    with pytest.raises(NetworkError, match=r"mixer\.txt:43: inputs: 'nothing' is no layer above"):
        load_network(str(path))


@pytest.mark.parametrize("execution", ["published", "deployed"])
def test_planners_and_both_execution_models_take_it(execution: str) -> None:
    network = mixer(heads=8, features=64, states=64, length=256)
    work = [sizes(node, 4, Shard()).flops for node in partition_graph(network)]
    steps = {}
    for planner in ("data_parallel", "accpar", "search"):
        found = accelarray.simulate(
            network, planner, "dgx-a100", 4, execution=execution, folded=False
        ).timeline
        steps[planner] = found.iteration_ps
        scans = sum(op.flops for op in found if "scan" in op.layer)
        # of each dot product the papers count one addition less, a fused kernel none
        assert scans == pytest.approx(sum(work[4]))
        total = sum(map(sum, work)) if execution == "published" else 0.0
        assert sum(op.flops for op in found) >= total * 0.999
    assert steps["search"] <= min(steps["accpar"], steps["data_parallel"])

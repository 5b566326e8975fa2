"""Products in fp8: each tensor is cast once, where it is written, and moved narrow after that."""

import pytest

from hardware import by_core, load_array
from planners import Axes, planned_by_axes
from planners.order import Kind, Phase
from simulator import DEPLOYED, simulate
from simulator.cost.operators import Operators
from simulator.cost.roofline import Core, core_of, costs
from simulator.cost.training_operators import operators
from tests.simulator.shapes import unsplit
from workloads import Builder, load_network

HIDDEN, FFN, KEYS, TOKENS = 4096, 14336, 1024, 128
ROUND = 4.0
"""Of a number in bfloat16: 2 B read, 1 B written twice, once transposed."""


def core(precision: str) -> Core:
    ((device, _),) = load_array("h100-cluster", [f"precision={precision}"]).group.kinds
    return core_of(device)


def cast(of: Operators, phase: Phase, in_: Core) -> dict[str, float]:
    """Bytes of what is cast, by the operator at which it is."""
    return {
        one.name.removesuffix(" cast"): one.bytes
        for v, node in enumerate(of.nodes)
        for one in costs(node.of(phase), unsplit(of.graph[v], 1), in_)
        if one.name.endswith(" cast")
    }


LLAMA = "llama3-8b:layers=1:seq=128"


def test_forward_casts_what_no_norm_writes() -> None:
    """Queries, keys and values read one tensor, and gate and up; their norms write fp8."""
    found = cast(operators(load_network(LLAMA)), Phase.FORWARD, core("fp8"))
    assert found == {
        "layer0.output forward": ROUND * TOKENS * HIDDEN,
        "layer0.mul forward": ROUND * TOKENS * FFN,
    }


def test_backward_casts_each_error_where_it_is_made() -> None:
    """That of ``down`` before it is gathered, by the final norm."""
    step, in_ = operators(load_network(LLAMA)), core("fp8")
    found = cast(step, Phase.BACKWARD, in_)
    assert found == {
        "layer0.query backward": ROUND * TOKENS * HIDDEN,
        "layer0.key backward": ROUND * TOKENS * KEYS,
        "layer0.value backward": ROUND * TOKENS * KEYS,
        "layer0.add1 backward": ROUND * TOKENS * HIDDEN,
        "layer0.mul backward": ROUND * TOKENS * FFN,
        "norm backward": ROUND * TOKENS * HIDDEN,
    }
    at = {op.name: len(op.casts) for node in step.nodes for op in node.backward}
    assert at["layer0.mul backward"] == 2
    assert at["layer0.down backward"] == at["layer0.gate backward"] == 0


def test_what_others_read_too_is_written_both_ways() -> None:
    """A norm whose output goes on by itself as well casts it by a kernel more."""
    net = Builder("other reader", 8, 4)
    net.linear("first", 8)
    entry = net.other("norm", "rms_norm")
    made = net.linear("second", 8, after=entry)
    net.add("sum", made, entry)
    net.linear("last", 8)
    found = cast(operators(net.build()), Phase.FORWARD, core("fp8"))
    assert set(found) == {"first forward", "norm forward", "sum forward"}


def test_of_two_readers_one_casts() -> None:
    net = Builder("two readers", 8, 4)
    entry = net.add("entry", net.linear("first", 8), net.linear("second", 8, after="input"))
    net.add("sum", net.linear("third", 8, after=entry), net.linear("fourth", 8, after=entry))
    net.linear("last", 8)
    found = cast(operators(net.build()), Phase.FORWARD, core("fp8"))
    assert set(found) == {"first forward", "entry forward", "sum forward"}


def test_nothing_is_cast_in_bf16() -> None:
    step = operators(load_network(LLAMA))
    assert not cast(step, Phase.FORWARD, core("bf16"))
    assert not cast(step, Phase.BACKWARD, core("bf16"))


@pytest.mark.parametrize("phase", [Phase.FORWARD, Phase.BACKWARD, Phase.RECOMPUTE])
def test_sequence_parallelism_gathers_narrow_numbers(phase: Phase) -> None:
    """Half as many bytes as in bf16, but for the head and the embedding's error; sums as before."""
    got, sums = {}, set()
    for precision in ("bf16", "fp8"):
        array = load_array("dgx-h100", [f"precision={precision}", "optimizer=adam"])
        network = load_network("llama3-8b:layers=2:seq=256")
        plan = planned_by_axes(network, by_core(array), 4, Axes(dp=4, tp=2, sp=True))
        totals = simulate(network, plan, array, DEPLOYED).totals()
        got[precision] = totals[phase, Kind.BOUNDARY].bytes
        sums.add(totals[Phase.FORWARD, Kind.SUMS].bytes)
    assert len(sums) == 1
    each = 4 * 256 * HIDDEN  # one gather's bytes in fp8: each of eight receives a half
    assert got["bf16"] - got["fp8"] == 4 * each
    assert got["fp8"] == (4 + 2) * each

"""What of a forward pass is computed again before backward, so that it need not be kept.

A segment of layers keeps what it reads and what others read of it. All else that it writes
is forgotten when forward has read it, and written anew right before backward needs it:

    selective   the core of each attention (scores, softmax, dropout, context)
    full        each of the blocks that a network repeats
    N           the first N blocks (of each stage, where there are stages)

Korthikanti et al. 2022, section 5. All products of a segment run again, as a checkpoint
runs them; of the rest what writes nothing but kept tensors, and masks, does not: such a
mask is drawn again, from its seed, by what reads it. Some stop early, behind the last
operator that writes what backward reads: of a transformer's block the last product, a third
of an MLP of 4 h, adds to what the next block keeps, and is not needed again (PyTorch's
checkpoints with ``use_reentrant=False``, ``set_checkpoint_early_stop``; XLA removes it as dead).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from planners.order import Phase
from simulator.cost.operands import MASK_BYTES
from simulator.cost.operators import Map, Operator, Operators, Segment
from workloads import Network, NetworkError
from workloads.attention import attention_cores
from workloads.network import blocks

NONE, SELECTIVE, FULL = "none", "selective", "full"


def is_mode(text: str) -> bool:
    """Whether a word says what is computed again: none, selective, full, or a number."""
    number = text.isascii() and text.isdigit() and len(text) < 7
    return text in (NONE, SELECTIVE, FULL) or number


def segments(network: Network, mode: str) -> tuple[tuple[str, ...], ...]:
    """The names of the layers of each segment."""
    if mode == NONE:
        return ()
    if mode == SELECTIVE:
        return attention_cores(network)
    found = blocks(network)
    return found if mode == FULL else found[: int(mode)]


def check(network: Network, mode: str) -> None:
    """Raise NetworkError where there is nothing of the kind, or less, to be computed again."""
    if mode not in (NONE, "0") and not segments(network, mode):
        what = "attention" if mode == SELECTIVE else "repeated blocks"
        raise NetworkError(
            f"--recompute {mode}: network {network.name!r} has no {what}; take another network, "
            "or stages:all"
        )
    if mode.isdigit() and int(mode) > (many := len(blocks(network))):
        raise NetworkError(
            f"--recompute {mode}: network {network.name!r} has {many} blocks; take at most {many}, "
            "or full"
        )


def recomputed(
    step: Operators, network: Network, mode: str, *, early_stop: bool = False
) -> Operators:
    """A step's operators with those that run again."""
    for layers in segments(network, mode):
        step = _with_segment(step, frozenset(layers), early_stop)
    return step


def _with_segment(step: Operators, layers: frozenset[str], early_stop: bool) -> Operators:
    """One more segment; where a node's operators would be of two, those of the second are kept."""
    inside: list[tuple[int, Operator]] = []
    outside: set[str] = set()
    for index, node in enumerate(step.nodes):
        free = not node.recompute
        for operator in node.forward:
            if free and _layer_of(operator) in layers:
                inside.append((index, operator))
            else:
                outside |= {tensor.tensor for tensor in operator.reads}
    written = {tensor.tensor for _, operator in inside for tensor in operator.writes}
    forgotten = written - outside
    if early_stop:
        needed_again = forgotten & _read_behind(step)
        inside = inside[: 1 + max(_writing(inside, needed_again), default=-1)]
    read = {t.tensor for _, operator in inside for t in operator.reads} | _read_behind(step)
    needed = forgotten & read  # what a stage sends at its end is not made again
    again = [
        (index, _again(operator, written))
        for index, operator in inside
        if operator.macs
        or any(t.tensor in needed and t.each_bytes != MASK_BYTES for t in operator.writes)
    ]
    nodes = list(step.nodes)
    for index in dict.fromkeys(index for index, _ in again):
        own = tuple(operator for at, operator in again if at == index)
        nodes[index] = replace(nodes[index], recompute=own)
    behind = []
    for index, node in enumerate(nodes):
        backward = _reading(node.backward, forgotten)
        gradient = _reading(node.gradient, forgotten)
        if (backward, gradient) != (node.backward, node.gradient):
            behind.append(index)
            nodes[index] = replace(node, backward=backward, gradient=gradient)
    if not behind or not again:
        return step
    products = {index for index, op in again if _layer_of(op) == step.graph[index].name}
    found = tuple(dict.fromkeys(index for index, _ in again))
    segment = Segment(behind[-1], found, frozenset(products))
    return replace(step, nodes=tuple(nodes), segments=(*step.segments, segment))


def _read_behind(step: Operators) -> set[str]:
    """All tensors that backward reads, and gradients of weights."""
    behind = (op for node in step.nodes for op in (*node.backward, *node.gradient))
    return {tensor.tensor for op in behind for tensor in op.reads}


def _writing(inside: Sequence[tuple[int, Operator]], tensors: set[str]) -> Iterable[int]:
    """Which of some operators write one of these."""
    for place, (_, operator) in enumerate(inside):
        if any(tensor.tensor in tensors for tensor in operator.writes):
            yield place


def _layer_of(operator: Operator) -> str:
    """An operator is called as its layer and what it does."""
    return operator.name.rpartition(" ")[0]


def _again(operator: Operator, written: set[str]) -> Operator:
    """Forward once more: what the segment writes goes by another name then."""
    return replace(
        operator,
        name=f"{_layer_of(operator)} {Phase.RECOMPUTE}",
        phase=Phase.RECOMPUTE,
        reads=_renamed(operator.reads, written),
        writes=_renamed(operator.writes, written),
    )


def _reading(operators: Sequence[Operator], forgotten: set[str]) -> tuple[Operator, ...]:
    """Operators of backward, which read what was computed again."""
    return tuple(
        replace(operator, reads=_renamed(operator.reads, forgotten))
        if any(tensor.tensor in forgotten for tensor in operator.reads)
        else operator
        for operator in operators
    )


def _renamed(maps: Iterable[Map], tensors: set[str]) -> tuple[Map, ...]:
    return tuple(
        replace(each, tensor=f"{each.tensor} again") if each.tensor in tensors else each
        for each in maps
    )

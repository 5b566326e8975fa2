"""A step as Chakra execution traces, one file a rank, as ASTRA-sim reads them.

A file has messages of Chakra's et_def.proto, each behind its length: GlobalMetadata, then a Node
for each computation, collective, send or receive, with what it waits for. Protocol buffers are
written here: numbers, texts and messages in fields are all that these need, and no package is.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from experiments.explain.kernels import Kernel, kernels
from experiments.files.ranks import Ranks, file_of
from experiments.output import to_json, whole_file
from simulator import Operation, Program, Timeline
from simulator.engine.machine import Machine
from simulator.engine.replay import Follower, replay
from simulator.engine.resources import Done

VERSION = "0.0.4"
"""Of Chakra's schema, as GlobalMetadata says it."""
COMPUTE, SEND, RECEIVE, COLLECTIVE = 4, 5, 6, 7
"""NodeType."""
COMM_TYPE = {
    "all-reduce": 0,
    "all-gather": 2,
    "broadcast": 5,
    "all-to-all": 6,
    "send/recv": 6,
    "reduce-scatter": 7,
}
"""CollectiveCommType; what halves of an array swap is an all-to-all of as many bytes."""
_VALUES = {"bool_val": 27, "int32_val": 7, "int64_val": 9, "uint64_val": 13, "string_val": 29}
"""Fields of AttributeProto."""
_TYPES = {
    **dict.fromkeys(("comm_src", "comm_dst", "comm_tag"), "int32_val"),
    **dict.fromkeys(("num_ops", "comm_type", "comm_size"), "int64_val"),
    "is_cpu_op": "bool_val",
    "tensor_size": "uint64_val",
    "pg_name": "string_val",
}
"""Of each attribute, which of them Chakra's reader takes it from."""
PS_A_US = 1_000_000
Attributes = dict[str, int | str]
Key = tuple[Operation, int]
"""An operation of a micro-batch."""
Needs = Sequence[Done]


def write(ranks: Ranks, timeline: Timeline, chosen: Collection[int], path: str) -> None:
    """A file for each chosen rank, step.0.et, step.1.et, and step.comm_group.json.

    The last is ASTRA-sim's --comm-group-configuration: ranks by the number of their group.
    """
    for worker, mine in enumerate(kernels(timeline)):
        if (rank := ranks.numbers[worker]) not in chosen:
            continue
        with whole_file(file_of(path, rank)) as target, target.open("wb") as file:
            file.write(_behind_length(_field(1, VERSION)))
            for node in nodes(ranks, timeline, worker, mine):
                file.write(_behind_length(encoded(node)))
    groups = {str(number): list(group) for group, number in ranks.groups.items() if number}
    with whole_file(path[: -len(".et")] + ".comm_group.json") as target:
        target.write_text(to_json(groups), encoding="utf-8")


class Node(NamedTuple):
    """One node: what waits for others (by their ids), and its attributes."""

    id: int
    name: str
    type: int
    needs: tuple[int, ...]
    micros: int
    attributes: Attributes
    row: int
    """Of the timeline's columns."""


def nodes(ranks: Ranks, timeline: Timeline, number: int, mine: Iterable[Kernel]) -> Iterator[Node]:
    """Everything that a worker does, in the order in which it began, behind what it waits for.

    One collective or send goes behind the other: ASTRA-sim has one of a rank under way, and so
    ranks that each wait for the other would stand still, were they not in one order.
    """
    program = timeline.program
    worker, recorder = program.workers[number], Recorder(ranks, program, number)
    machine = cast("Machine", recorder)
    for row in dict.fromkeys(kernel.row for kernel in mine):
        operation = timeline.operations[timeline.columns.operation[row]]
        recorder.rows[operation, timeline.columns.micro_batch[row]].append(row)
    if worker.rank_program is None:
        steps = replay(machine, number)
    else:
        steps = Follower(machine, number, worker.rank_program).follow()
    for _ in steps if worker.template else ():
        pass  # nothing takes time
    begins = timeline.columns.start
    order = sorted(recorder.nodes, key=lambda node: (begins[node.row], node.row, node.id))
    new = {node.id: place for place, node in enumerate(order, 1)}
    last = 0
    for node in order:
        needs = {new[need] for need in node.needs}
        if node.type in (COLLECTIVE, SEND):
            needs |= {last} - {0}
            last = new[node.id]
        yield node._replace(id=new[node.id], needs=tuple(sorted(needs)))


@dataclass(frozen=True)
class _Over:
    """What is done at once: the nodes that who needs it waits for."""

    numbers: tuple[int, ...]
    callbacks: None = None


@dataclass
class Recorder:
    """Takes what a worker gives to a machine, and writes nodes in place of running them."""

    ranks: Ranks
    program: Program
    worker: int
    own: None = None
    """No exchanges go together with others."""
    nodes: list[Node] = field(default_factory=list)
    rows: dict[Key, deque[int]] = field(default_factory=lambda: defaultdict(deque))
    """Of what the worker does, by operation and micro-batch."""
    _last: dict[int, _Over] = field(default_factory=dict)
    _arrivals: dict[Key, _Over] = field(default_factory=dict)

    @property
    def _rank(self) -> int:
        return self.ranks.numbers[self.worker]

    def block(self, *_: object) -> None:
        """No operations go together."""

    def expect(self, *_: object) -> None:
        """Nothing waits in vain."""

    def compute(self, _: int, operation: Operation, micro_batch: int, after: Needs) -> _Over:
        """Behind what the unit did before."""
        attributes: Attributes = {
            "num_ops": round(operation.flops),
            "tensor_size": round(operation.hbm_bytes),
        }
        micros = max(1, round(operation.duration_ps / PS_A_US))
        last = self._last.get(operation.unit)
        before, key = [*after, *([cast("Done", last)] if last else [])], (operation, micro_batch)
        found = self._add(key, COMPUTE, self.rows[key].popleft(), before, attributes, micros)
        self._last[operation.unit] = found
        return found

    def meet(
        self, _: int, operation: Operation, __: int, micro_batch: int, after: Needs, *___: object
    ) -> _Over:
        """A collective of the rank's group."""
        message, key = self.ranks.message(operation, self._rank), (operation, micro_batch)
        n = len(message.group)
        swapped = n / max(n - 1, 1) if message.work == "send/recv" else 1.0
        attributes: Attributes = {
            "comm_type": COMM_TYPE[message.work],
            "comm_size": round(message.brings * swapped),
            "pg_name": str(self.ranks.groups[message.group]),
        }
        return self._add(key, COLLECTIVE, self.rows[key].popleft(), after, attributes)

    def deliver(
        self,
        _: int,
        __: Operation,
        key: Key,
        ___: int,
        after: Needs,
        *____: object,
        **_____: object,
    ) -> _Over:
        """A send to each rank that this one has to serve."""
        return self._between(key, SEND, after)

    def arrival(self, key: Key) -> _Over:
        """A receive from each rank that serves this one."""
        return self.receive(0, key, ())

    def receive(self, _: int, key: Key, after: Needs) -> _Over:
        """The same in a rendezvous, behind what the rank did before."""
        if key not in self._arrivals:
            self._arrivals[key] = self._between(key, RECEIVE, after)
        return self._arrivals[key]

    def _between(self, key: Key, type_: int, after: Needs) -> _Over:
        own = 0 if type_ == SEND else 1
        peers, row = self.ranks.peers(key[0]), self.rows[key].popleft()
        found = tuple[int, ...]()
        for pair in (pair for pair in peers if pair[own] == self._rank):
            attributes: Attributes = {
                "comm_src": pair[0],
                "comm_dst": pair[1],
                "comm_size": round(key[0].bytes / len(peers)),
                "comm_tag": self.ranks.tag(key),
            }
            found += self._add(key, type_, row, after, attributes).numbers
        return _Over(found)

    def _add(
        self, key: Key, type_: int, row: int, after: Needs, said: Attributes, micros: int = 0
    ) -> _Over:
        before = {number for one in cast("Sequence[_Over]", after) for number in one.numbers}
        name, number = f"{key[0]}, micro-batch {key[1]}", len(self.nodes) + 1
        needs, said = tuple(sorted(before)), {"is_cpu_op": 0, **said}
        self.nodes.append(Node(number, name, type_, needs, micros, said, row))
        return _Over((number,))


def encoded(node: Node) -> bytes:
    """A node as a protocol buffer."""
    parts = [_field(1, node.id), _field(2, node.name), _field(3, node.type)]
    if node.needs:
        parts.append(_field(5, b"".join(map(_varint, node.needs))))
    parts.append(_field(7, node.micros))
    for name, value in node.attributes.items():
        parts.append(_field(10, _field(1, name) + _field(_VALUES[_TYPES[name]], value)))
    return b"".join(parts)


def _field(number: int, value: int | str | bytes) -> bytes:
    """A number, or a text or message behind its length."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    raw = value.encode("utf-8", "replace") if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _behind_length(raw)


def _behind_length(raw: bytes) -> bytes:
    return _varint(len(raw)) + raw


def _varint(number: int) -> bytes:
    """Seven bits a byte, the lowest first."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)

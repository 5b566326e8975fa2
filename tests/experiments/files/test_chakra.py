"""Chakra's execution traces: read with protobuf's own library, and run as ASTRA-sim would."""

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

import accelarray
from experiments.explain.kernels import kernels
from experiments.files.chakra import COLLECTIVE, COMPUTE, RECEIVE, SEND

descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")

FIELDS = {
    # of mlcommons/chakra, schema/protobuf/et_def.proto: number, name, type, * for repeated
    "AttributeProto": "1 name string, 7 int32_val int32, 9 int64_val int64, 11 uint32_val uint32, "
    "13 uint64_val uint64, 27 bool_val bool, 29 string_val string",
    "GlobalMetadata": "1 version string, 2 attr AttributeProto*",
    "Node": "1 id uint64, 2 name string, 3 type int32, 4 ctrl_deps uint64*, 5 data_deps uint64*, "
    "6 start_time_micros uint64, 7 duration_micros uint64, 10 attr AttributeProto*",
}
SCALARS = {"string": 9, "int32": 5, "int64": 3, "uint32": 13, "uint64": 4, "bool": 8}
"""FieldDescriptorProto.Type."""
READ_AS = {
    # what ETFeederNode of Chakra's feeder takes each attribute from
    "is_cpu_op": "bool_val",
    "tensor_size": "uint64_val",
    "pg_name": "string_val",
    **dict.fromkeys(("num_ops", "comm_type", "comm_size"), "int64_val"),
    **dict.fromkeys(("comm_src", "comm_dst", "comm_tag"), "int32_val"),
}


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    from google.protobuf import descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="et.proto", package="C", syntax="proto3")
    for name, fields in FIELDS.items():
        message = file.message_type.add(name=name)
        for number, field, type_ in (one.split() for one in fields.split(", ")):
            plain, label = type_.rstrip("*"), 3 if type_.endswith("*") else 1
            known = {"name": field, "number": int(number), "label": label}
            if plain in SCALARS:
                message.field.add(**known, type=SCALARS[plain])
            else:
                message.field.add(**known, type=11, type_name=f".C.{plain}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"C.{name}"))
        for name in FIELDS
    }


def read(path: Path, schema: dict[str, Any]) -> list[dict[str, Any]]:
    """Nodes with their attributes; every byte is one that the schema has."""
    raw, messages = path.read_bytes(), list[bytes]()
    while raw:
        size = shift = 0
        while True:
            byte, raw = raw[0], raw[1:]
            size, shift = size | (byte & 127) << shift, shift + 7
            if byte < 128:
                break
        message, raw = raw[:size], raw[size:]
        assert len(message) == size
        messages.append(message)
    head = schema["GlobalMetadata"].FromString(messages[0])
    assert head.version == "0.0.4"
    found = []
    for message in messages[1:]:
        node = schema["Node"].FromString(message)
        known = {attr.name: getattr(attr, READ_AS[attr.name]) for attr in node.attr}
        for attr in node.attr:
            assert [one.name for one, _ in attr.ListFields()] <= ["name", READ_AS[attr.name]]
        again = schema["Node"].FromString(node.SerializeToString())
        again.DiscardUnknownFields()
        assert again == node
        deps = [*node.data_deps]
        whole = {"id": node.id, "name": node.name, "type": node.type, "deps": deps, **known}
        found.append(whole | {"micros": node.duration_micros})
    return found


def run(ranks: list[list[dict[str, Any]]], groups: dict[str, list[int]]) -> float:
    """Microseconds of the computations when exchanges take no time; what waits for ever is told.

    A node begins when what it needs is over and, of computations, the one before on its rank.
    Collectives of one group meet in the order in which their ranks come to them. As in ASTRA-sim
    (HardwareResource) a rank has one collective or send under way, and any number of receives.
    """
    busy: list[int | None] = [None] * len(ranks)
    ended: list[dict[int, float]] = [{} for _ in ranks]
    left = [list(nodes) for nodes in ranks]
    free = [0.0] * len(ranks)
    meetings: dict[tuple[str, int], dict[int, tuple[int, float]]] = defaultdict(dict)
    came = Counter[tuple[str, int]]()
    ends: dict[tuple[str, int], float] = {}
    sent: dict[tuple[int, int, int], float] = {}
    met: dict[tuple[int, int], tuple[str, int]] = {}
    moved = True
    while moved:
        moved = False
        for rank, nodes in enumerate(left):
            for node in list(nodes):
                if any(need not in ended[rank] for need in node["deps"]):
                    continue
                occupies = node["type"] in (COLLECTIVE, SEND)
                if occupies and busy[rank] not in (None, node["id"]):
                    continue
                busy[rank] = node["id"] if occupies else busy[rank]
                ready = max([ended[rank][need] for need in node["deps"]], default=0.0)
                key = node.get("comm_src", -1), node.get("comm_dst", -1), node.get("comm_tag", -1)
                if node["type"] == COMPUTE:
                    ready = free[rank] = max(ready, free[rank]) + node["micros"]
                elif node["type"] == SEND:
                    assert key[0] == rank, node
                    assert key not in sent, node
                    sent[key] = ready
                elif node["type"] == RECEIVE:
                    assert key[1] == rank
                    if key not in sent:
                        continue
                    ready = max(ready, sent[key])
                else:
                    place = rank, node["id"]
                    if place not in met:
                        number = came[node["pg_name"], rank]
                        came[node["pg_name"], rank] += 1
                        met[place] = node["pg_name"], number
                        meetings[met[place]][rank] = node["comm_size"], ready
                        moved = True
                    members = groups.get(node["pg_name"], list(range(len(ranks))))
                    there = meetings[met[place]]
                    if sorted(there) != members:
                        continue
                    assert len({size for size, _ in there.values()}) == 1, (node, there)
                    ready = ends[met[place]] = max(at for _, at in there.values())
                ended[rank][node["id"]] = ready
                busy[rank] = None if occupies else busy[rank]
                nodes.remove(node)
                moved = True
    assert not any(left), [nodes[:2] for nodes in left]
    return max(end for done in ended for end in done.values())


CASES: dict[str, dict[str, Any]] = {
    "data": {"parallel": "dp=8", "micro_batch": 2, "zero": 3},
    "tensor, stages": {"parallel": "tp=2,pp=2,dp=2,sp", "micro_batch": 2, "zero": 1},
    "two stages a place": {"parallel": "pp=2,vp=2,dp=4", "micro_batch": 1},
    "cut backward": {"parallel": "pp=4,tp=2", "micro_batch": 2, "schedule": "zero-bubble"},
    "in turn": {
        "parallel": "pp=4,tp=2",
        "micro_batch": 2,
        "stack": "deepspeed-2022",
        "precision": "fp16",
        "optimizer": "adam",
    },
    "unlike stages": {"array": "mixed-v100-t4", "stage_hw": "v100:1x4;t4:2x2", "micro_batch": 1},
    "recomputed": {"parallel": "pp=2,tp=4", "micro_batch": 4, "recompute": "stages:all"},
}


@pytest.mark.parametrize("name", CASES)
def test_files_run_to_their_end_and_compute_what_the_step_does(
    name: str, tmp_path: Path, schema: dict[str, Any]
) -> None:
    options = {"array": "dgx-a100", "batch": 16, "folded": False, **CASES[name]}
    step = accelarray.simulate("gpt2:layers=4:seq=256", **options)
    step.save(tmp_path / "step.et")
    ranks = [read(tmp_path / f"step.{rank}.et", schema) for rank in range(8)]
    groups = json.loads((tmp_path / "step.comm_group.json").read_text())
    for nodes, mine in zip(ranks, kernels(step.timeline), strict=True):
        assert [node["id"] for node in nodes] == list(range(1, len(nodes) + 1))
        assert all(need < node["id"] for node in nodes for need in node["deps"])
        assert not any(node["is_cpu_op"] for node in nodes)
        rows = {one.row: one.work for one in mine}
        kinds = Counter(node["type"] for node in nodes)
        columns, operations = step.timeline.columns, step.timeline.operations
        done = [operations[columns.operation[row]] for row in rows]
        computed = [one for one in done if one.kind == "compute"]
        assert kinds[COMPUTE] == len(computed)
        sends = sum(one.kind == "send" for one in done)
        ends = kinds[SEND] + kinds[RECEIVE]
        assert ends == sends or (name == "unlike stages" and ends == 2 * sends)  # to tp=2 of one
        assert kinds[COLLECTIVE] == len(done) - len(computed) - sends
        flops = sum(node["num_ops"] for node in nodes if node["type"] == COMPUTE)
        assert flops == pytest.approx(sum(one.flops for one in computed), rel=1e-6)
    taken = [node for nodes in ranks for node in nodes if node["type"] == RECEIVE]
    assert any(node["deps"] for node in taken) == (name == "in turn")
    took = run(ranks, groups) / 1e6
    assert took < 1.05 * step.iteration_s
    computed_s = max(sum(node["micros"] for node in nodes) for nodes in ranks) / 1e6
    assert took >= computed_s
    assert computed_s > 0.3 * step.iteration_s or name == "unlike stages"  # a slow network


def test_collectives_have_the_bytes_that_a_rank_brings(
    tmp_path: Path, schema: dict[str, Any]
) -> None:
    step = accelarray.simulate(
        "gpt2:layers=4:seq=256", array="dgx-a100", batch=16, parallel="dp=8", zero=1
    )
    step.save(tmp_path / "step.et")
    nodes = read(tmp_path / "step.3.et", schema)
    brought = Counter[int]()
    for node in nodes:
        if node["type"] == COLLECTIVE:
            assert node["pg_name"] == "0"  # all ranks
            brought[node["comm_type"]] += node["comm_size"]
    parameters = step.case.network.parameters
    reduce_scatter, all_gather = 7, 2
    assert brought[reduce_scatter] == pytest.approx(4 * parameters, rel=1e-3)  # float32
    assert brought[all_gather] == pytest.approx(2 * parameters / 8, rel=1e-3)  # bfloat16, its part
    assert set(brought) == {reduce_scatter, all_gather}

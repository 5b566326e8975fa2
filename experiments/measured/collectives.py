"""Collectives on the event engine beside formulas, another simulator and NCCL's measured times."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import Annotated

import numpy as np

from experiments.measured.section import (
    Column,
    Record,
    Section,
    grouped,
    largest_error,
    lines,
    median_error,
    relative,
)
from experiments.output import UsageError
from experiments.studies.published_values import shipped_rows
from hardware import Array, Group, Topology, Wires, load_array
from hardware.reader import Cells, checked_rows, number, whole
from simulator import chosen, closed_form, run_alone

SIZE_BYTES = 1e8
LATENCIES_S = (0.0, 5e-7)
REDUCING = ("all-reduce", "reduce-scatter", "all-gather")
SIZES = ((2,), (3,), (8,), (64,), (100,), (1024,))
POWERS = ((2,), (8,), (64,), (1024,))
RINGS = SIZES[1:]
"""A ring of two has one cable: nothing goes both ways."""
FULL = ((2,), (8,), (64,))
"""Every pair has links of its own: few nodes."""
TORI = ((4, 4), (8, 4), (5, 7), (32, 16), (32, 32))
EXACT: tuple[tuple[str, str, str, tuple[tuple[int, ...], ...]], ...] = (
    *((collective, "ring", "ring", SIZES) for collective in REDUCING),
    *(("all-reduce", "ring", kind, SIZES) for kind in ("switch", "tree")),
    ("all-reduce", "ring", "fully_connected", FULL),
    *((collective, "ring-two-way", "ring", RINGS) for collective in REDUCING),
    *(("all-reduce", "recursive-doubling", kind, POWERS) for kind in ("switch", "tree")),
    ("all-reduce", "recursive-doubling", "fully_connected", FULL),
    *((collective, "halving-doubling", "switch", POWERS) for collective in REDUCING),
    ("all-reduce", "halving-doubling", "tree", POWERS),
    ("all-reduce", "halving-doubling", "fully_connected", FULL),
    *((collective, "torus-one-way", "torus", TORI) for collective in REDUCING),
    *((collective, "torus", "torus", TORI) for collective in REDUCING),
    *(("all-reduce", "direct", kind, FULL) for kind in ("switch", "fully_connected")),
    *(("all-to-all", "direct", kind, FULL) for kind in ("switch", "fully_connected")),
    *(("broadcast", "binomial", kind, FULL) for kind in ("switch", "fully_connected")),
)
"""Collective, algorithm, topology and its shapes, where a formula is exact."""

INDEPENDENT = (
    ("ring of 8", 8, 0.0, 3_259_635e-9),
    ("ring of 64", 64, 0.0, 3_667_105e-9),
    ("ring of 8, 500 ns a hop", 8, 5e-7, 3_259_635e-9 + 14 * 5e-7),
    ("ring of 64, 500 ns a hop", 64, 5e-7, 3_667_105e-9 + 126 * 5e-7),
)
"""ASTRA-sim 2.0 (analytical back end): one-way all-reduce of 100,000,000 B, 50 GiB/s a link."""


LARGE = 16e6
"""Bytes from which NCCL's count: below it protocols change, which no two constants say."""
MOST_RANKS = 1 << 12

THEIRS = (
    Column("simulator", "simulator"),
    Column("all-reduce of 100 MB", "case"),
    Column("theirs [ns]", "theirs_s", "{:,.0f}", 1e9),
    Column("ours [ns]", "ours_s", "{:,.0f}", 1e9),
    Column("error", "error", "{:+.5%}"),
)


class CollectiveRow(Cells):
    """One measured collective: over the first ``ranks`` GPUs of so many nodes of an array."""

    system: str
    array: str
    nodes: Annotated[int, whole(1, MOST_RANKS)]
    collective: str
    algorithm: str
    ranks: Annotated[int, whole(1, MOST_RANKS)]
    bytes: Annotated[float, number(1e-6, 1e15)]
    time_us: Annotated[float, number(1e-6, 1e15)]
    source: str


class LatencyRow(Cells):
    """One collective's time in a table of latencies, a median of so many ``versions`` of NCCL."""

    device: str
    op_name: str
    num_gpus: Annotated[int, whole(2, MOST_RANKS)]
    latency_ms: Annotated[float, number(1e-6, 1e9)]
    versions: str
    bytes: Annotated[float, number(1, 1e15)]


ARRAYS = {
    "A100-SXM4-40GB": "a100-40-cluster",
    "A100-SXM4": "a100-cluster",
    "H100 80GB HBM3": "h100-cluster",
    "H200": "h200-cluster",
    "B200": "b200-cluster",
    "B300 SXM6": "b300-cluster",
    "GB200": "gb200-cluster",
    "GB300": "gb300-cluster",
    "GH200": "gh200-cluster",
    "V100-SXM2": "v100-cluster",
    "Instinct MI300X": "mi300x-cluster",
    "Instinct MI325X": "mi325x-cluster",
    "Instinct MI355X": "mi355x-cluster",
}
"""How names of devices begin behind their maker's, and the array whose nodes have them."""
MAKERS = ("NVIDIA ", "Tesla ", "AMD ")


def without_maker(device: str) -> str:
    """A device's name, as drivers have it, without the words in front of its own."""
    for maker in MAKERS:
        device = device.removeprefix(maker)
    return device


def known_array(device: str) -> str | None:
    """The catalog's array of a device, by the name that its driver has."""
    name = without_maker(device)
    return next((array for begins, array in ARRAYS.items() if name.startswith(begins)), None)


def array_of(device: str, path: str) -> str:
    """The catalog's array of a device, by the name that its driver has; raises UsageError."""
    if (found := known_array(device)) is None:
        raise UsageError(
            f"{path}: device {device[:80]!r}: no array of the catalog has it; say which, as "
            "--array my-array.toml"
        )
    return found


def latencies(rows: Sequence[LatencyRow]) -> list[CollectiveRow]:
    """Rows of a table of latencies, by arrays of the catalog."""
    return [
        CollectiveRow(
            system=row.device,
            array=array,
            nodes=1,
            collective=row.op_name.replace("_", "-").replace("alltoall", "all-to-all"),
            algorithm="auto",
            ranks=row.num_gpus,
            bytes=row.bytes,
            time_us=row.latency_ms * 1e3,
            source="a table of latencies",
        )
        for row in rows
        if (array := known_array(row.device))
    ]


def left_out(rows: Sequence[LatencyRow]) -> tuple[str, ...]:
    """A sentence about devices of a table of latencies that the catalog lacks, if there are any."""
    devices = (one for one in dict.fromkeys(row.device for row in rows) if not known_array(one))
    unknown = [without_maker(device)[:40] for device in devices]
    if not unknown:
        return ()
    known = f"a device's name begins with one of {', '.join(ARRAYS)}"
    return (f"Left out are rows of {', '.join(unknown[:3])}: {known}.",)


def shipped() -> list[CollectiveRow]:
    """Return NCCL's times that come with accelarray."""
    return checked_rows(CollectiveRow, shipped_rows("nccl.csv"), UsageError)


def closed_forms(progress: Callable[[str], None]) -> Iterator[Record]:
    """Every collective of ``EXACT``, without and with latency."""
    ((device, _),) = load_array("ring-8").group.kinds
    for collective, algorithm, kind, shapes in EXACT:
        for shape in shapes:
            for latency_s in LATENCIES_S:
                node = replace(device, network_latency_s=latency_s)
                grid = shape if kind == "torus" else ()
                group = Group(((node, prod(shape)),))
                wires = Wires(Array(kind, "", group, topology=Topology(kind, shape=grid)))
                yield _exact(wires, collective, algorithm, shape)
        progress(f"{collective} {algorithm}")


def _exact(wires: Wires, collective: str, algorithm: str, shape: tuple[int, ...]) -> Record:
    _, phases = chosen(wires, collective, wires.nodes, SIZE_BYTES, algorithm)
    wanted_s = closed_form(wires, collective, wires.nodes, SIZE_BYTES, algorithm)
    if wanted_s is None:
        raise LookupError(f"no formula for {collective} {algorithm} on a {wires.topology.kind}")
    simulated_s, _ = run_alone(wires, phases)
    return {
        "collective": collective,
        "algorithm": algorithm,
        "topology": wires.topology.kind,
        "n": len(wires.nodes),
        "shape": shape,
        "latency_s": wires.array.group.kinds[0][0].network_latency_s,
        "phases": len(phases),
        "simulated_s": simulated_s,
        "closed_form_s": wanted_s,
        "error": relative(simulated_s, wanted_s),
    }


def independent() -> Iterator[Record]:
    """ASTRA-sim's values and ours."""
    for case, n, latency_s, theirs_s in INDEPENDENT:
        settings = [f"devices.0.count={n}", f"topology.latency={latency_s * 1e9:g} ns"]
        wires = Wires(load_array("ring-8", settings))
        _, phases = chosen(wires, "all-reduce", wires.nodes, SIZE_BYTES, "ring")
        ours_s, _ = run_alone(wires, phases)
        yield {
            "simulator": "ASTRA-sim 2.0",
            "case": case,
            "theirs_s": theirs_s,
            "ours_s": ours_s,
            "error": relative(ours_s, theirs_s),
        }


def measured(
    rows: Sequence[CollectiveRow], progress: Callable[[str], None] = lambda done: None
) -> Iterator[Record]:
    """Each of NCCL's collectives, simulated; small ones are not ``counted``."""
    for row in rows:
        wires = Wires(load_array(row.array, [f"nodes={row.nodes}"]))
        asked = row.collective, np.arange(row.ranks), row.bytes, row.algorithm
        algorithm, jobs = chosen(wires, *asked)
        ours_s, measured_s = run_alone(wires, jobs)[0], row.time_us / 1e6
        yield row.model_dump(exclude={"bytes", "time_us"}) | {
            "algorithm": algorithm,
            "size_bytes": row.bytes,
            "measured_s": measured_s,
            "ours_s": ours_s,
            "error": relative(ours_s, measured_s),
            "counted": row.bytes > LARGE,
        }
    progress("measured collectives")


def exact_section(found: list[Record]) -> Section:
    """A line for each collective, algorithm and topology; JSON has every case."""
    keys = ("collective", "algorithm", "topology")
    rows = [
        {
            **dict(zip(keys, group, strict=True)),
            "n": ", ".join(dict.fromkeys("x".join(map(str, case["shape"])) for case in cases)),
            "largest error": f"{max((case['error'] for case in cases), key=abs):+.1e}",
        }
        for group, cases in grouped(found, lambda case: tuple(case[key] for key in keys)).items()
    ]
    worst = max(abs(one["simulated_s"] - one["closed_form_s"]) / one["phases"] for one in found)
    remark = (
        f"{len(found)} cases of {SIZE_BYTES / 1e6:g} MB, each without and with 500 ns of latency: "
        f"at most {worst * 1e12:.2f} ps a phase off (times are whole picoseconds, rounded up)."
    )
    title = "Collectives: simulated against closed forms"
    return Section(title, rows, (remark,), {"closed_forms": found})


def independent_section(found: list[Record]) -> Section:
    """A line for each case."""
    return Section("Another simulator", lines(found, THEIRS), (), {"independent": found})


def latencies_section(found: list[Record], more: tuple[str, ...] = ()) -> Section:
    """A line for each system and number of GPUs, small messages and large ones apart."""
    groups = grouped(found, lambda case: (case["system"], case["ranks"]))
    rows = [
        {"system": system, "GPUs": ranks, "rows": len(cases), **_by_size(cases)}
        for (system, ranks), cases in groups.items()
    ]
    every = grouped(found, lambda case: case["ranks"])
    remarks = tuple(
        f"{ranks} GPUs: median "
        + ", ".join(f"{error} {size}" for size, error in _by_size(cases).items())
        for ranks, cases in every.items()
    )
    title = "Collectives: a table of latencies, and ours"
    return Section(title, rows, (*remarks, *more), {"latencies": found})


def _by_size(cases: list[Record]) -> Record:
    parts = {
        "4 kB to 16 MB": [c for c in cases if 4e3 <= c["size_bytes"] <= 1 << 24],
        "above": [c for c in cases if c["size_bytes"] > 1 << 24],
    }
    return {size: f"{median_error(part):.1%}" for size, part in parts.items() if part}


def measured_section(found: list[Record]) -> Section:
    """A line for each system and number of GPUs; JSON has every row."""
    large = [case for case in found if case["counted"]]
    small = [case for case in found if not case["counted"]]
    keys = ("system", "nodes", "array", "ranks")
    rows = [
        {
            "system": system,
            "array": array,
            "GPUs": ranks,
            "rows": len(cases),
            "by": ", ".join(dict.fromkeys(case["algorithm"] for case in cases)),
            "median": f"{median_error(cases):.1%}",
            "largest": f"{max((case['error'] for case in cases), key=abs):+z.1%}",
        }
        for (system, _, array, ranks), cases in grouped(
            large, lambda case: tuple(case[key] for key in keys)
        ).items()
    ]
    inside = [case for case in large if case["nodes"] == 1]
    meshed = [case for case in inside if case["array"] == "dgx-1-v100"]
    remarks = (
        f"Inside a node, above 16 MB: {len(inside)} rows, median {median_error(inside):.1%}; on "
        f"the mesh of a DGX-1 at most {largest_error(meshed):.1%}.",
        f"Not counted: {len(small)} rows of 16 MB and less, median {median_error(small):.1%} "
        "(perhaps with each call's launch).",
    )
    title = "Collectives: NCCL's measured times, and ours"
    return Section(title, rows, remarks, {"measured_collectives": found})

"""Why nothing changes: topics of keys, and facts that decide between reasons."""

from dataclasses import replace

import pytest

from experiments.explain.whatif import BOUND_OF, WORDS, topic_of, why_nothing
from experiments.studies.case import Case
from hardware import Array, load_array
from simulator import DEPLOYED, PUBLISHED, Execution
from workloads import load_network

LENET = load_network("lenet")
BOUNDS = {"FLOPs": 0.5, "HBM": 0.2, "overhead": 0.0, "links": 0.299, "latency": 0.001}


def step(array: Array, execution: Execution) -> Case:
    return Case(LENET, "owt", array, 64, execution=execution)


def reason(key: str, value: str, array: str, execution: Execution) -> str:
    after = load_array(array, [f"{key}={value}"])
    return why_nothing(key, step(load_array(array), execution), after, BOUNDS)


@pytest.mark.parametrize(
    ("key", "topic"),
    [
        ("hbm.bandwidth", "hbm"),
        ("devices.3.hbm.bandwidth", "hbm"),
        ("devices.0.hbm.capacity", "capacity"),
        ("network.bandwidth", "port"),
        ("devices.0.network.latency", "latency"),
        ("links.bandwidth", "wires"),
        ("links.latency", "latency"),
        ("topology.shape", "wires"),
        ("topology.latency", "latency"),
        ("energy.mac", "energy"),
        ("roofline.overhead", "overhead"),
        ("roofline.matrix_efficiency", "core"),
        ("devices.0.count", ""),
        ("devices.0", ""),
        ("description", ""),
    ],
)
def test_what_a_key_is_about(key: str, topic: str) -> None:
    assert topic_of(key) == topic


def test_every_bound_has_words() -> None:
    assert set(BOUND_OF.values()) == set(WORDS) == set(BOUNDS)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("devices.0.hbm.bandwidth", "1 TB/s"),
        ("devices.0.hbm.capacity", "1 GiB"),
        ("devices.1.roofline.overhead", "1 us"),
        ("topology.kind", "switch"),
        ("network.latency", "1 us"),
    ],
)
def test_what_the_rules_do_not_read_is_said_by_the_rules(key: str, value: str) -> None:
    said = reason(key, value, "accpar-mixed", PUBLISHED)
    assert said in PUBLISHED.ignores.values()
    assert "published model" in said
    assert "published model" not in reason(key, value, "accpar-mixed", DEPLOYED)


def test_what_exact_shards_do_not_read_is_said() -> None:
    exact = replace(DEPLOYED, whole_shards=False)
    said = reason("devices.0.roofline.tile", "false", "tpu-v3-8", exact)
    assert "--shards exact" in said
    assert said != reason("devices.0.roofline.tile", "false", "tpu-v3-8", PUBLISHED)


def test_the_port_counts_under_both_models() -> None:
    """Splits have links of their accelerators' ports: a faster one that changes nothing is off
    the path, or carries nothing."""
    published = reason("network.bandwidth", "100 Gbit/s", "accpar-mixed", PUBLISHED)
    assert published.startswith("29.9% of the critical path is communication of bytes, but not")
    deployed = reason("network.bandwidth", "100 Gbit/s", "tpu-v3-pod", DEPLOYED)
    assert deployed == "chips are joined to chips here: no message crosses a board's network port"


def test_an_energy_is_no_time_and_the_same_value_no_change() -> None:
    assert reason("devices.0.energy.mac", "1 pJ", "hypar-16", PUBLISHED) == (
        "energies count joules, not time"
    )
    assert reason("devices.0.power.busy", "300 W", "dgx-a100", DEPLOYED) == (
        "powers count joules, not time"
    )
    same = step(load_array("hypar-16"), PUBLISHED)
    said = why_nothing("network.bandwidth", same, same.array, BOUNDS)
    assert said == "it is what the spec says anyway"


def test_capacity_is_about_fitting() -> None:
    said = reason("devices.0.hbm.capacity", "1 GiB", "tpu-v3-8", DEPLOYED)
    assert said == "hbm.capacity matters only for whether the plan fits"


def test_what_is_slight_is_said_with_its_share() -> None:
    before = step(load_array("tpu-v3-8"), DEPLOYED)
    after = load_array("tpu-v3-8", ["devices.0.links.latency=1 ms"])
    assert why_nothing("devices.0.links.latency", before, after, BOUNDS) == (
        "0.10% of the critical path is communication latency; 50.0% is compute limited by FLOPs"
    )
    nothing = {**BOUNDS, "latency": 0.0}
    assert why_nothing("devices.0.links.latency", before, after, nothing).startswith(
        "no part of the critical path is communication latency"
    )


def test_what_is_large_but_elsewhere() -> None:
    before = step(load_array("accpar-mixed-switch"), DEPLOYED)
    changed = load_array("accpar-mixed-switch", ["devices.0.chip.peak=1 PFLOP/s"])
    said = why_nothing("devices.0.chip.peak", before, changed, BOUNDS)
    assert said == (
        "50.0% of the critical path is compute limited by FLOPs, but not what this changes: "
        "the rest takes as long"
    )


def test_what_hosts_hold_up_no_faster_core_changes() -> None:
    host = "devices.0.roofline.host_layer=9 ms"
    before = step(load_array("dgx-h100", [host]), DEPLOYED)
    key = "devices.0.chip.peak_by_format.bf16"
    changed = load_array("dgx-h100", [host, f"{key}=2 PFLOP/s"])
    assert why_nothing(key, before, changed, BOUNDS) == (
        "50.0% of the critical path is compute limited by FLOPs, but hosts need as long to start "
        "the operators (host, host_layer)"
    )


def test_what_nothing_is_known_of() -> None:
    before = step(load_array("accpar-homogeneous"), PUBLISHED)
    after = load_array("accpar-homogeneous", ["devices.0.count=64"])
    said = why_nothing("devices.0.count", before, after, BOUNDS)
    assert said == "what it changes takes little or none of the step"

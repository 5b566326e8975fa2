"""Twice as fast, changed values, and why they change nothing."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

import accelarray as aa
from accelarray import plan
from experiments.explain.study import Explanation, explain, messages, steps_of
from experiments.explain.whatif import KNOBS, alike, sped_up, topic_of, why_nothing
from experiments.studies.case import Case, step_of
from experiments.terms import duration
from hardware import Array, Topology, load_array, wires_of
from hardware.topology import Tier
from planners import load_planner
from planners.plan.updates import Update
from simulator import PUBLISHED, Execution
from workloads import load_network

LENET = load_network("lenet")
DEPLOYED = Execution("deployed")
WIRED = {"links": "links.bandwidth", "HBM": "hbm.bandwidth", "cores": "chip.peak"}


def explained(
    array: str,
    *changes: str,
    planner: str = "data_parallel",
    execution: Execution = DEPLOYED,
    batch: int = 512,
    network: str = "lenet",
) -> Explanation:
    case = Case(
        load_network(network),
        planner,
        load_array(array, changes),
        batch,
        execution=execution,
    )
    heard: list[str] = []

    def asked(some: Sequence[str]) -> Case:
        return replace(case, array=load_array(array, some))

    result = explain(case, changes, asked, heard.append)
    assert len(heard) == steps_of(case, changes)
    return result


@pytest.mark.parametrize("what", KNOBS)
def test_doubled_is_what_set_would_do(what: str) -> None:
    values = {"links": "124 GB/s", "HBM": "1400 GB/s", "cores": "90 TFLOP/s"}
    changes = [f"devices.0.{WIRED[what]}={values[what]}"]
    if what == "links":
        (device, _), *_ = load_array("tpu-v2-8").group.kinds
        changes.append(f"network.bandwidth={2 * device.network_bytes_per_s} B/s")
    wanted = load_array("tpu-v2-8", changes).group
    assert sped_up(load_array("tpu-v2-8"), what).group == wanted
    topology = load_array("accpar-mixed-switch", ["topology.bandwidth=1 GB/s"])
    assert sped_up(topology, "links").topology.bytes_per_s == 2e9
    assert sped_up(topology, "HBM").topology.bytes_per_s == 1e9


def test_a_knob_is_the_step_on_that_array() -> None:
    result = explained("accpar-mixed", planner="accpar", execution=PUBLISHED, network="alexnet")
    faster = load_array("accpar-mixed")
    for knob in result.knobs:
        array = sped_up(faster, knob.what)
        case = Case(load_network("alexnet"), "accpar", array, 512)
        assert knob.replanned_s == step_of(case)[1].iteration_s
    links, memory, _ = result.knobs
    assert links.same_plan_s < 0.51 * result.iteration_s
    assert memory.same_plan_s == memory.replanned_s == result.iteration_s
    assert memory.reason == "the published model has no memory: HBM values are not used"
    assert links.reason is None


def test_hbm_bound_steps_gain_nothing_from_faster_cores() -> None:
    """With so many FLOP/s everything is bound by HBM traffic or overhead."""
    result = explained("tpu-v2-8", "devices.0.chip.peak=4500 TFLOP/s")
    knobs = {knob.what: knob for knob in result.knobs}
    assert knobs["cores"].reason is not None
    assert " is compute limited by FLOPs; " in knobs["cores"].reason
    assert knobs["HBM"].reason is None


@pytest.mark.parametrize(
    ("array", "keys"),
    [
        ("gh200-cluster", ("topology.levels.0", "topology.levels.1")),
        ("tpu-v3-8", ("devices.0.links", "devices.0.network")),
    ],
)
def test_links_twice_as_fast_are_those_of_twice_the_bandwidth(
    array: str, keys: tuple[str, str]
) -> None:
    """The half size, too: its bytes go twice as fast."""

    def with_links(gb: int) -> Array:
        rates = [f"{key}.bandwidth={gb} GB/s" for key in keys]
        return load_array(array, [*(f"{key}.half_size=2 MB" for key in keys), *rates])

    found, expected = sped_up(with_links(100), "links"), with_links(200)
    (mine, _), (its, _) = found.group.kinds[0], expected.group.kinds[0]
    pairs: list[tuple[Any, Any]] = [
        *zip(found.topology.levels, expected.topology.levels, strict=True)
    ]
    for one, other in pairs or [(mine.links, its.links)]:
        assert one.bytes_per_s == pytest.approx(other.bytes_per_s)
        assert one.latency_s == pytest.approx(other.latency_s)
    if not pairs:
        assert mine.network_latency_s == pytest.approx(its.network_latency_s)


@pytest.mark.parametrize(
    ("array", "execution", "change", "words"),
    [
        ("accpar-mixed", PUBLISHED, "devices.0.hbm.bandwidth=1 GB/s", "has no memory"),
        ("accpar-mixed", PUBLISHED, "devices.0.hbm.capacity=1 GB", "has no memory"),
        ("accpar-mixed", PUBLISHED, "devices.1.roofline.overhead=1 ms", "at the peak rate"),
        ("accpar-mixed", PUBLISHED, "topology.kind=switch", "topology and links between chips"),
        ("accpar-mixed", PUBLISHED, "network.latency=1 ms", "latency is not used"),
        ("accpar-mixed", PUBLISHED, "devices.0.count=128", "what the spec says anyway"),
        ("hypar-16", PUBLISHED, "devices.0.energy.mac=1 pJ", "joules, not time"),
        (
            "accpar-homogeneous",
            PUBLISHED,
            "devices.0.arithmetic.master=8 B",
            "other formats are not",
        ),
        ("tpu-v2-8", DEPLOYED, "devices.0.arithmetic.gradients=4 B", "what the spec says anyway"),
        ("tpu-v2-8", DEPLOYED, "devices.0.chip.peak_by_format.fp8=1 PFLOP/s", "in another format"),
        ("tpu-v2-8", DEPLOYED, "devices.0.arithmetic.fused=true", "two FLOPs a multiply-acc"),
        ("tpu-v2-8", DEPLOYED, "devices.0.hbm.capacity=4 GB", "whether the plan fits"),
        ("tpu-v2-pod", DEPLOYED, "network.bandwidth=1 Gbit/s", "no message crosses a board's"),
        ("tpu-v2-pod", DEPLOYED, "network.latency=1 ms", "no message crosses a board's"),
    ],
)
def test_why_a_changed_value_changes_nothing(
    array: str, execution: Execution, change: str, words: str
) -> None:
    planner = "hypar" if array == "hypar-16" else "data_parallel"
    result = explained(array, change, execution=execution, planner=planner)
    (setting,) = result.settings
    assert setting.assignment == change
    assert setting.unchanged_s == result.iteration_s
    assert setting.reason is not None
    assert words in setting.reason


def test_a_topologys_bandwidth_hides_the_devices() -> None:
    changes = ("topology.bandwidth=1 GB/s", "network.bandwidth=3 GB/s")
    first, second = explained("ring-8", *changes).settings
    assert second.reason == "topology.bandwidth of this array stands in its place"
    assert first.reason is None


def test_a_changed_value_that_counts_has_no_reason() -> None:
    result = explained("tpu-v2-8", "devices.0.hbm.bandwidth=70 GB/s")
    (setting,) = result.settings
    assert setting.reason is None
    plain = step_of(Case(LENET, "data_parallel", load_array("tpu-v2-8"), 512, execution=DEPLOYED))
    assert setting.unchanged_s == plain[1].iteration_s
    assert setting.unchanged_s < result.iteration_s


@pytest.mark.parametrize("key", ["element", "activations", "weights", "gradients", "moments"])
def test_wider_numbers_are_a_longer_step(key: str) -> None:
    """HBM-bound LeNet: whatever has twice as many bytes takes longer, and needs no reason."""
    value = '["8 B"]' if key == "moments" else "8 B"
    (setting,) = explained("tpu-v2-8", f"devices.0.arithmetic.{key}={value}").settings
    assert setting.reason is None
    assert setting.unchanged_s is not None


def test_formats_that_are_not_on_the_path_are_said_not_to_be() -> None:
    """Elements of another width where FLOPs are all there is: published, on one board."""
    changes = ("devices.0.count=1", "devices.0.arithmetic.element=4 B")
    _, element = explained("accpar-homogeneous", *changes, execution=PUBLISHED).settings
    assert element.reason == "nothing is exchanged by one device"
    slow = ("devices.0.chip.peak=1 GFLOP/s", "devices.0.arithmetic.master=8 B")
    _, master = explained("tpu-v2-8", *slow).settings
    assert master.reason is not None
    assert " is compute limited by HBM bandwidth; " in master.reason


def test_values_that_only_stand_together_say_so() -> None:
    result = explained("tpu-v2-8", "topology.shape=[4,2]", "devices.0.count=2")
    assert [setting.unchanged_s for setting in result.settings] == [None, None]
    for setting, nodes in zip(result.settings, (4, 8), strict=True):
        assert f"{nodes} nodes; there are" in (setting.reason or "")


def test_hidden_exchanges_are_said_to_be_hidden() -> None:
    case = Case(LENET, "data_parallel", load_array("ring-8"), 64, execution=DEPLOYED)
    bounds = {"FLOPs": 0.25, "HBM": 0.75, "overhead": 0.0, "links": 0.0, "latency": 0.0}
    faster = sped_up(case.array, "links")
    reason = why_nothing("network.bandwidth", case, faster, bounds)
    assert reason.startswith("compute hides all communication")
    bounds |= {"HBM": 0.7495, "latency": 0.0005}
    reason = why_nothing("network.bandwidth", case, faster, bounds)
    assert reason == (
        "no part of the critical path is communication of bytes; "
        "75.0% is compute limited by HBM bandwidth"
    )


@pytest.mark.parametrize("keyword", [True, False])
def test_without_a_stack_its_habits_are_gone_too(keyword: bool) -> None:
    """It decides about buckets, kernels and attention: not the array alone is another one."""
    on: dict[str, Any] = {"array": "h100-cluster", "batch": 16, "parallel": "dp=8"}
    stack: dict[str, Any] = {"stack": "megatron-2021", "set": ["nodes=1"]}
    if not keyword:
        stack = {"set": ["nodes=1", "stack=megatron-2021"]}
    found = aa.explain("gpt2:layers=2", **on, **stack).to_dict()["set"][-1]
    assert found["assignment"] == "stack=megatron-2021"
    plain = aa.simulate("gpt2:layers=2", **on, set=["nodes=1"])
    assert found["unchanged_s"] == plain.iteration_s


def test_what_a_step_is_compared_with_need_not_fit() -> None:
    """The batch at once does not; the step that was asked for, in micro-batches, does."""
    on: dict[str, Any] = {"array": "h100-cluster", "batch": 64, "strict_memory": True}
    on |= {"set": ["nodes=1", "devices.0.hbm.capacity=3 GB"], "parallel": "dp=8", "micro_batch": 1}
    network = "gpt2:layers=4"
    step = aa.simulate(network, **on)
    with pytest.raises(aa.SimulationError, match="does not fit"):
        aa.simulate(network, "data_parallel", **on | {"parallel": None, "micro_batch": None})
    found = aa.explain(network, **on)
    assert found.iteration_s == step.iteration_s
    assert "data parallelism" in found.explanation.full
    first, *_ = aa.sweep({"micro_batch": [1]}, network, "axes", **on | {"micro_batch": None}).rows()
    assert first["iteration_s"] == step.iteration_s
    page = aa.report(network, "axes", **on).html
    assert "does not fit" in page


def test_data_parallelism_beside_stages_has_none() -> None:
    """The whole batch at once, as the sentence about it says."""
    how: dict[str, Any] = {"array": "dgx-a100", "batch": 64}
    staged = aa.explain("resnet18", planner="owt", stages=2, micro_batches=4, **how)
    found = staged.to_dict()["data_parallel_s"]
    assert found == aa.simulate("resnet18", planner="data_parallel", **how).iteration_s


def test_plans_that_lose_are_told() -> None:
    losing = explained("accpar-mixed", planner="owt", execution=PUBLISHED, network="resnet18")
    assert any("owt is slower than data parallelism" in note for note in messages(losing))
    result = explained("accpar-mixed", planner="accpar", execution=PUBLISHED, network="alexnet")
    assert result.fast_alone_s is not None
    assert result.fast_alone_s < result.iteration_s
    assert messages(result) == [
        f"accpar on the 128 accpar-tpu-v3 alone is faster than on the whole array: "
        f"{duration(result.fast_alone_s)} against {duration(result.iteration_s)}.",
        "1,024 of 2,048 cores are idle.",
    ]
    baseline = explained("accpar-homogeneous", execution=PUBLISHED)
    assert (baseline.data_parallel_s, baseline.fast_alone_s, messages(baseline)) == (None, None, [])
    idle = explained("tpu-v2-8", batch=5)
    assert messages(idle) == ["3 of 8 cores are idle."]


def test_plans_are_alike_by_what_they_split() -> None:
    array = load_array("accpar-mixed")
    plans = [load_planner(name)(LENET, array, 512) for name in ("data_parallel", "owt")]
    again = load_planner("owt")(LENET, sped_up(array, "links"), 512)
    assert alike(plans[1], again)
    assert not alike(plans[0], plans[1])
    assert not alike(again, replace(again, updates=(Update.SHARDED,) * len(again.nodes)))


def test_plans_of_stages_are_alike_by_these_and_their_plans() -> None:
    plans = [
        plan("gpt2:layers=2:seq=64", "axes", "tpu-v3-8", 16, parallel=axes, micro_batch=2).plan
        for axes in ("pp=2,dp=2,tp=2", "pp=2,dp=2,tp=2", "pp=2,dp=4", "pp=4,dp=2")
    ]
    assert [alike(plans[0], other) for other in plans] == [True, True, False, False]
    pipeline = plans[0].pipeline
    assert pipeline is not None
    moved = tuple(replace(place, first=4 - place.first) for place in pipeline.places)
    for other in (replace(pipeline, schedule="gpipe"), replace(pipeline, places=moved)):
        assert not alike(plans[0], replace(plans[0], pipeline=other))


@pytest.mark.parametrize(
    ("key", "topic"),
    [
        ("hbm.bandwidth", "hbm"),
        ("devices.1.hbm.capacity", "capacity"),
        ("devices.0.links.bandwidth", "wires"),
        ("topology.latency", "latency"),
        ("devices.0.arithmetic.element", "element"),
        ("arithmetic.moments", "formats"),
        ("devices.0.arithmetic.compute", "core"),
        ("chip.peak_by_format.fp8", "core"),
        ("chip.cores", ""),
        ("devices.0.count", ""),
    ],
)
def test_topics(key: str, topic: str) -> None:
    assert topic_of(key) == topic


def test_twice_as_fast_links_are_those_of_all_tiers() -> None:
    levels = (Tier("switch", 4, 3e9), Tier("ring", 2, 1e9))
    plain = load_array("accpar-homogeneous", ["devices.0.count=8"])
    array = replace(plain, topology=Topology("tiers", levels=levels))
    before, after = wires_of(array), wires_of(sped_up(array, "links"))
    tiers = [subnet.links for subnet in before.subnets[-2:]]
    for links in tiers:
        assert (after.bandwidth[links] == 2 * before.bandwidth[links]).all()
    hbm = before.subnets[0].links
    assert (after.bandwidth[hbm] == before.bandwidth[hbm]).all()

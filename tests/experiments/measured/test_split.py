"""What a row states is taken; what it does not is named."""

from __future__ import annotations

from typing import Any

import pytest

from experiments.measured.machine import MACHINES, changes_of, machine_of
from experiments.measured.rows import LeftOutError
from experiments.measured.split import precision_of, split_of
from hardware import load_array
from planners import Axes
from tests.experiments.measured.some_rows import small


def of(**changed: Any) -> Any:
    row = small(**changed)
    return split_of(row, machine_of(row))


def test_a_row_that_states_all_assumes_nothing() -> None:
    split = of()
    assert split.assumed == ()
    assert split.axes == Axes(dp=4, tp=2, sp=True)
    assert (split.micro_batch, split.zero, split.recompute) == (2, 0, "none")
    assert not of(tp=1, dp=8).axes.sp  # there is nobody to share positions with


@pytest.mark.parametrize(
    ("changed", "assumed"),
    [
        ({"mbs": ""}, "micro-batch 1"),
        ({"mbs": "", "hw": "TPUv5e", "nic_gbps_per_gpu": ""}, "micro-batch 8"),
        ({"pp": 2, "dp": 2}, "vp 1"),
        ({"pp": 2, "dp": 2, "layers": 12, "overlap": '"tp,dp"'}, "vp 1"),
        ({"pp": 2, "dp": 2, "layers": 12, "overlap": '"tp,dp,pp"'}, "vp 2"),
        ({"pp": 2, "dp": 2, "layers": 17, "overlap": "pp"}, "vp 3"),
        ({"pp": 2, "dp": 2, "layers": 14, "overlap": "pp"}, "vp 7"),
        ({"pp": 2, "dp": 2, "layers": 2, "overlap": "pp"}, "vp 1"),
        ({"pp": 4, "dp": 1, "layers": 14, "overlap": "pp"}, "vp 4"),
        ({"recompute": ""}, "recompute none"),
        ({"recompute": "", "hw": "TPUv4"}, "recompute 2 blocks of each stage"),
        ({"recompute": "custom"}, "recompute 2 blocks of each stage"),
        ({"dp_kind": ""}, "ddp"),
        ({"attn": "flash?"}, "fused attention"),
    ],
)
def test_what_is_not_stated_is_named(changed: dict[str, Any], assumed: str) -> None:
    assert assumed in of(**changed).assumed


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"gbs": ""}, "the batch is not stated"),
        ({"dp": 3}, "are not its 8 chips"),
        ({"gbs": 30}, "no multiple of dp 4 x micro-batches of 2"),
        ({"recompute": "maybe"}, "recompute 'maybe'"),
        ({"dp_kind": "zero9"}, "dp_kind 'zero9'"),
    ],
)
def test_what_does_not_fit_is_left_out(changed: dict[str, Any], why: str) -> None:
    with pytest.raises(LeftOutError, match=why):
        of(**changed)


def test_ways_of_data_parallelism_are_stages_of_zero() -> None:
    zero = {kind: of(dp_kind=kind).zero for kind in ("none", "ddp", "zero1", "zero2", "fsdp")}
    assert zero == {"none": 0, "ddp": 0, "zero1": 1, "zero2": 2, "fsdp": 3}
    staged = of(dp_kind="fsdp", pp=2, tp=1, dp=4, gpus=8)
    assert (staged.zero, "zero 1 within stages" in staged.assumed) == (1, True)


def test_what_may_be_computed_again_instead() -> None:
    """Quarters of a stage's blocks: 40 of 80 are 10, 20 and 30; of 3 blocks 1, 2 and all."""
    split = of(recompute="", layers=80, pp=2, dp=2)
    assert split.more == ("10", "20", "30", "full")
    assert of(recompute="", layers=3).more == ("1", "2", "full")
    assert of(recompute="", layers=1).more == ("full",)
    assert of(recompute="none").more == of(recompute="", hw="TPUv4").more == ()
    heavier = split.heavier
    assert (heavier.recompute, heavier.more) == ("10", ("20", "30", "full"))
    assert [one for one in heavier.assumed if "recompute" in one] == [
        "recompute 10 blocks of each stage"
    ]


def test_formats() -> None:
    assert precision_of(small(precision="fp8?")) == ("fp8", ("fp8",))
    assert precision_of(small(precision="")) == ("bf16", ("bf16",))
    with pytest.raises(LeftOutError, match="posit"):
        precision_of(small(precision="posit"))


@pytest.mark.parametrize("chip", MACHINES)
def test_every_chip_has_a_machine_as_large_as_its_rows(chip: str) -> None:
    row = small(hw=chip, nic_gbps_per_gpu=100)
    for chips in (8, 96, 128) if chip.startswith("V") else (4, 8, 96, 128):
        big = small(hw=chip, gpus=chips, gpus_per_node=4 if chip.startswith("GB") else 8)
        machine = machine_of(big)
        array = load_array(machine.array, changes_of(big, machine))
        assert array.group.size == chips, chip
    wire = load_array(machine_of(row).array, changes_of(row, machine_of(row))).topology.levels[1]
    if not machine_of(row).tpu:
        reached = 0.976 if chip.startswith("V") else 1.0
        assert wire.bytes_per_s * (wire.rails or 8) == pytest.approx(reached * 8 * 100e9 / 8)


def test_racks_are_parted_evenly() -> None:
    row = small(hw="GB200", gpus=128, gpus_per_node=4)
    assert changes_of(row, machine_of(row))[:2] == ["devices.0.count=64", "nodes=2"]


def test_an_unknown_chip_is_named() -> None:
    with pytest.raises(LeftOutError, match="did you mean H100"):
        machine_of(small(hw="H10"))

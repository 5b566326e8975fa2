"""The machine of a measured row, an array of the catalog as large as the row says; its stack."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from experiments.measured.rows import LeftOutError, Row
from hardware import SpecError, load_array
from hardware.reader import hint
from hardware.spec import load_settings


@dataclass(frozen=True, slots=True)
class Machine:
    """An array of the catalog; ``domain`` chips at most are joined without the network.

    ``cores`` names the chip whose cores it has, too, and ``watts`` is what its board may take.
    So many network ports of a node are shared by its chips (0: each has one).
    """

    array: str
    domain: int
    tpu: bool = False
    cores: str = ""
    watts: float = 0.0
    ports: int = 0

    def peak(self, precision: str) -> float:
        """A chip's FLOP/s in a format; raises SpecError for one that it has not.

        In bf16 those of fp16 where it has that alone, as V100 does: no chip has both unlike.
        """
        try:
            array = load_array(self.array, (f"precision={precision}",))
        except SpecError:
            if precision != "bf16":
                raise
            return self.peak("fp16")
        return array.group.kinds[0][0].chip_peak_flops_per_s


MACHINES = {
    "V100-32": Machine("v100-cluster", 8, ports=4),
    "A100-40": Machine("a100-40-cluster", 8, cores="A100-80", watts=400),
    "A100-80": Machine("a100-cluster", 8, watts=400),
    "H100": Machine("h100-cluster", 8, watts=700),
    "H100-96-500W": Machine("h100-500w-cluster", 8, cores="H100", watts=500),
    "H200": Machine("h200-cluster", 8, cores="H100", watts=700),
    "B200": Machine("b200-cluster", 8, watts=1000),
    "B300": Machine("b300-cluster", 8, cores="B200", watts=1100),
    "GB200": Machine("gb200-cluster", 72, cores="B200", watts=1200),
    "GB300": Machine("gb300-cluster", 72, cores="B200", watts=1400),
    "TPUv4": Machine("tpu-v4-slice", 4096, tpu=True),
    "TPUv5e": Machine("tpu-v5e-slice", 256, tpu=True),
    "TPUv5p": Machine("tpu-v5p-slice", 8960, tpu=True),
    "TPUv6e": Machine("tpu-v6e-slice", 256, tpu=True),
    "TPUv7x": Machine("tpu-v7x-slice", 9216, tpu=True),
}
"""The chips that rows may name. Rows count the GPUs of a tray of GB200 as a node: the
domain is the rack's. Watts are of NVIDIA's data sheets (B300 and GB300 recalled), and of
torchtitan's own words for its H100. A pod's size is the domain of a TPU: larger machines are
slices."""


OF_FRAMEWORK = (
    ("Megatron-LM 0.14", "megatron-lm-2025"),
    ("Megatron-DeepSpeed", "deepspeed-2022"),
    ("DeepSpeed", "deepspeed-2022"),
    ("Megatron-LM", "megatron-2021"),
    ("Megatron-Bridge", "megatron-2025"),
    ("Megatron-Core", "nemo-2024"),
    ("NeMo", "nemo-2024"),
    ("Composer", "composer-2023"),
    ("torchtitan", "torchtitan-2024"),
    ("metaseq", "composer-2023"),
    ("MaxText", "maxtext-2024"),
    ("PyTorch", "pytorch-2026"),
)
"""How frameworks begin, and the catalog's stack for them; the first one that fits counts."""
NEMO = re.compile(r"NeMo (?:Megatron )?(\d\d)\.(\d\d)")
LAST_FLASH = (24, 5)
"""The last release of NeMo whose launcher turned cuDNN's attention off."""
OTHERS = "megatron-2025"
LATER = 2024
"""From this year on Megatron-LM is taken to be as in 2025, with Transformer Engine."""
BRIDGE = "Megatron-Bridge "
RACKS = ("GB200", "GB300")
BLOCKING = "CUDA_LAUNCH_BLOCKING=1"
"""How a row's ``overlap`` says that its host waited for each kernel."""
FUSED_EXPERTS = "megatron-2026"
"""The stack that has one kernel for all experts, and their activation in it."""


def machine_of(row: Row) -> Machine:
    """What a row's ``hw`` or ``array`` means; raises LeftOutError for what is not known."""
    if row.array:
        return Machine(row.array, 0)
    if row.hw in MACHINES:
        return MACHINES[row.hw]
    raise LeftOutError(f"hw: {row.hw[:40]!r} is not known; {hint(row.hw, MACHINES)}")


def nemo_release(row: Row) -> tuple[int, ...]:
    """Year and month of the NeMo of a row, (24, 5); none for other frameworks."""
    found = NEMO.match(row.framework)
    return tuple(map(int, found.groups())) if found else ()


def changes_of(row: Row, machine: Machine) -> list[str]:
    """What the catalog's array is told to be as large as the row's, as ``--set`` takes it.

    Nodes are full, and as many as there must be. Of 128 GB200 the racks have 64 of
    their 72: all chips are in equal domains. What the row states for each GPU, a node's ports
    share: the four of eight V100 have twice as much each.
    """
    most = machine.domain
    if row.gpus_per_node and most <= 8:
        most = row.gpus_per_node
    each = next(each for each in range(min(most, row.gpus), 0, -1) if row.gpus % each == 0)
    changes = [f"devices.0.count={each}", f"nodes={row.gpus // each}"]
    ports = min(machine.ports, each) or each
    if each < machine.ports:
        changes.append(f"topology.levels.1.rails={each}")
    if row.nic_gbps_per_gpu and not machine.tpu:
        gbps = row.nic_gbps_per_gpu * each / ports
        changes.append(f"topology.levels.1.bandwidth={gbps:g} Gbit/s")
    if BLOCKING in row.overlap:
        changes.append("devices.0.roofline.blocking=true")
    return changes


@lru_cache(maxsize=1)
def chips() -> dict[str, str]:
    """What rows call the devices of the catalog, by the devices' names."""
    arrays = {chip: load_array(machine.array) for chip, machine in MACHINES.items()}
    return {array.group.kinds[0][0].name: chip for chip, array in arrays.items()}


def stack_of(row: Row) -> tuple[str, tuple[str, ...]]:
    """The catalog's stack of a row, and what is assumed where its framework is not known.

    NeMo's steps in submissions to MLPerf are of CUDA graphs.
    """
    if row.experts and row.framework.startswith(BRIDGE):
        return _recipe(row), ()
    if row.framework.startswith("Megatron-LM") and (row.year or 0) >= LATER:
        return "megatron-lm-2025", ()
    if row.framework.startswith("NeMo") and "mlperf" in f"{row.source} {row.framework}".lower():
        return "nemo-mlperf", ()
    if () < nemo_release(row) <= LAST_FLASH:
        return "nemo-2024-flash", ()
    for begins, stack in OF_FRAMEWORK:
        if row.framework.startswith(begins):
            return stack, ()
    return OTHERS, (f"stack {OTHERS}",)


@lru_cache(maxsize=64)
def lineage(stack: str) -> tuple[str, ...]:
    """A stack and those that it extends, which say what it does not."""
    return (stack, *load_settings(stack, "stack").bases)


def _recipe(row: Row) -> str:
    """The stack of Megatron-Bridge's recipe for experts, by release, chip, model and format.

    NVIDIA-NeMo/Megatron-Bridge, scripts/performance/configs: from 26.06 on steps in MXFP8 are
    whole CUDA graphs with one kernel for all experts on GB200 and GB300 (on B300 of Qwen3-30B and
    DeepSeek-V3). Before, these two use HybridEP, racks for Qwen3-235B, too, and DeepSeek-V3 over
    several nodes DeepEP; else it is all-to-all, where tp is on H100 beside other products.
    """
    racks, small = row.hw in RACKS, row.model.startswith("qwen3-30b")
    fused = racks or (row.hw == "B300" and row.model.startswith(("qwen3-30b", "deepseek")))
    later = row.framework.removeprefix(BRIDGE) >= "26.06"
    if later and row.precision == "fp8" and fused:
        return FUSED_EXPERTS
    if row.model.startswith("deepseek") and not racks and (row.ep or 1) > machine_of(row).domain:
        return "megatron-2025-deepep"
    if small or row.model.startswith("deepseek") or (racks and row.model.startswith("qwen3")):
        return "megatron-2025-hybridep"
    return "megatron-2025-overlap" if row.hw == "H100" and (row.tp or 1) > 1 else OTHERS

"""What stages keep for blocks that compute forward again: the input of each, and no more.

In units of a block's input, 2 s b h bytes in 16 bits, or a t-th part of it with sequence
parallelism: micro-batches in flight times the blocks of a stage. The last stage keeps the input
and the output of the final norm as well (Korthikanti et al. 2022, section 5).
"""

import pytest

from accelarray import simulate
from planners.order import Kind, Phase
from workloads import Transformer, transformer

H, S, BLOCKS = 256, 64, 8
GPT = transformer(Transformer("g", BLOCKS, H, 8, 512, S, ffn=2 * H, tied=False, attention="fused"))
CASES = {
    "pp=2,dp=1": [2 * 4, 1 * 4 + 2],
    "pp=4,dp=1": [4 * 2, 3 * 2, 2 * 2, 1 * 2 + 2],
    "pp=8,dp=1": [8, 7, 6, 5, 4, 3, 2, 1 + 2],
    "pp=4,vp=2,dp=1": [11, 9, 7, 5 + 2],  # Narayanan et al. 2021: 2 (p - s - 1) + (v - 1) p + 1
    "pp=4,tp=2,dp=1": [4 * 2, 3 * 2, 2 * 2, 1 * 2 + 2],
    "pp=4,tp=2,sp,dp=1": [4 * 2, 3 * 2, 2 * 2, 1 * 2 + 2],
}


def kept(parallel: str, recompute: str) -> list[float]:
    """By stage, the most that activations hold."""
    degrees = dict(part.split("=") for part in parallel.split(",") if "=" in part)
    devices = int(degrees["pp"]) * int(degrees.get("tp", "1"))
    step = simulate(
        GPT,
        array="dgx-h100",
        batch=8,
        parallel=parallel,
        micro_batch=1,
        recompute=recompute,
        set={"devices.0.count": devices, "topology.levels.0.members": devices},
    )
    frame = step.memory_frame()
    unit = 2 * S * H / (int(degrees["tp"]) if ",sp" in parallel else 1)
    return [float(one.activations.max()) / unit for _, one in frame.groupby("cores", sort=False)]


@pytest.mark.parametrize("parallel", CASES)
def test_stages_keep_the_inputs_of_their_blocks(parallel: str) -> None:
    found = kept(parallel, "full")
    assert found == pytest.approx(CASES[parallel], abs=0.15)  # and ids of the tokens


@pytest.mark.parametrize(("parallel", "each"), [("pp=4,dp=1", 12.0), ("pp=4,tp=2,sp,dp=1", 12.0)])
def test_without_recomputation_all_stages_keep_as_much_of_a_block(
    parallel: str, each: float
) -> None:
    """34 s b h a block (Table 2) less dropout's masks, of an MLP of 2 h: 12 units of 2 s b h.

    Two inputs of norms, of queries, of keys, of values, of attention's product, of the first
    linear layer, and 2 h of it before and behind GELU.
    """
    found = kept(parallel, "none")
    per_block = [one / blocks for one, blocks in zip(found[:3], (4 * 2, 3 * 2, 2 * 2), strict=True)]
    assert per_block == pytest.approx([each] * 3, abs=0.15)


@pytest.mark.parametrize("parallel", ["tp=4,sp", "tp=4", "cp=4", "dp=4"])
def test_stages_compute_as_long_as_one_does(parallel: str) -> None:
    """All devices together: the norm behind a cut is of the part that its device received."""
    found = []
    for stages in (1, 2):
        devices = 4 * stages
        changed = {"devices.0.count": devices, "topology.levels.0.members": devices}
        whole = parallel if "dp" in parallel else f"{parallel},dp=1"
        step = simulate(
            "llama3-8b:layers=4",
            array="dgx-h100",
            batch=8,
            parallel=f"{whole},pp={stages}",
            micro_batch=1,
            stack="none",
            set=changed,
        )
        totals = step.timeline.totals()
        phases = (Phase.FORWARD, Phase.BACKWARD, Phase.GRADIENT)
        found.append(sum(totals[phase, Kind.COMPUTE].core_ps for phase in phases))
    assert found[1] == pytest.approx(found[0], rel=1e-8)

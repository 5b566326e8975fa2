"""Traces in the shape of PyTorch's profiler: what they say, and what is read of others'."""

import gzip
import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import accelarray
from experiments.cli import main
from experiments.explain.kernels import step_sums
from experiments.files.kineto import class_of, read_trace
from experiments.output import UsageError
from planners.order import Kind, Phase

Event = dict[str, Any]
AXES: dict[str, dict[str, Any]] = {
    "data and tensor": {"parallel": "tp=2,dp=4", "micro_batch": 2},
    "stages": {"parallel": "tp=2,pp=2,dp=2,sp", "micro_batch": 2, "zero": 1},
    "two stages a place": {"parallel": "pp=2,vp=2,dp=4", "micro_batch": 1},
}


def stepped(folded: bool = True, **options: Any) -> accelarray.StepResult:
    return accelarray.simulate(
        "gpt2:layers=4:seq=256", array="dgx-a100", batch=16, folded=folded, **options
    )


@pytest.mark.parametrize("name", AXES)
def test_our_own_trace_read_back_has_the_steps_numbers(name: str, tmp_path: Path) -> None:
    step, places = stepped(**AXES[name]), 2 if "pp" in AXES[name]["parallel"] else 1
    step.save(tmp_path / "step.pt.trace.json")
    traces = [read_trace(tmp_path / f"step.{rank}.pt.trace.json") for rank in range(8)]
    assert [(trace.rank, trace.world_size, trace.steps) for trace in traces] == [
        (rank, 8, 1) for rank in range(8)
    ]
    ours = step_sums(step.timeline)
    for key, seconds in ours.items():
        mean = math.fsum(trace.sums[key] for trace in traces) / 8
        assert mean == pytest.approx(seconds, rel=1e-4, abs=2e-7), key
    assert ours["step"] == step.iteration_s
    busy = ours["products"] + ours["attention"] + ours["element-wise"]
    assert busy / ours["step"] == pytest.approx(step.shares.computing, rel=1e-9)
    if places == 1:  # of sends, shares counts the sender's side alone
        exposed = ours["exposed communication"] / ours["step"]
        assert exposed == pytest.approx(step.shares.communicating, rel=1e-9)
        assert ours["idle"] / ours["step"] == pytest.approx(step.shares.waiting, abs=1e-9)


def test_kernels_are_the_operators_that_the_time_is_made_of() -> None:
    step = accelarray.simulate(
        "llama3-8b:layers=1:seq=512", array="dgx-a100", batch=8, parallel="tp=8"
    )
    found = Counter[str]()
    for one in step.timeline.operations:
        if one.kind == Kind.COMPUTE:
            assert math.fsum(one.work_s) == pytest.approx(one.duration_ps / 1e12, rel=1e-3)
            products, attention, elementwise = one.work_s
            if one.phase == Phase.UPDATE:
                assert products == attention == 0 < elementwise
            found["attention" if attention else "products" if products else "other"] += 1
            assert (attention > 0) == (one.layer == "layer0.attention.context"), one
            assert (products > 0) <= (one.flops > 0), one
    assert found["attention"] == 2  # forward, and backward, which has no second product
    assert found["products"] == 3 * 8  # q, k, v, output, gate, up, down, head; three products each


def kernels(path: Path) -> list[Event]:
    events = json.loads(path.read_text())["traceEvents"]
    return [event for event in events if event.get("cat") == "kernel"]


def test_a_stream_runs_one_kernel_at_a_time(tmp_path: Path) -> None:
    """Sends of interleaved stages to one neighbour are under way together."""
    step = accelarray.simulate(
        "gpt2:layers=8",
        array="h100-cluster",
        set={"nodes": 1},
        batch=32,
        parallel="pp=2,vp=2,dp=4",
        schedule="interleaved",
        micro_batch=1,
    )
    step.save(tmp_path / "k.pt.trace.json")
    for path in tmp_path.glob("k.*.json"):
        until: dict[int, int] = {}
        for one in sorted(kernels(path), key=lambda event: float(event["ts"])):
            begin = round(one["ts"] * 1000)
            assert begin >= until.get(one["tid"], 0)
            until[one["tid"]] = begin + round(one["dur"] * 1000)


def test_collectives_say_their_group_and_their_size(tmp_path: Path) -> None:
    step = stepped(parallel="tp=2,dp=4", micro_batch=2)
    step.save(tmp_path / "step.pt.trace.json")
    whole, tensor = 0, Counter[tuple[int, str, str]]()
    for rank in range(2):  # the two halves of tp have all parameters, or share them
        for event in kernels(tmp_path / f"step.{rank}.pt.trace.json"):
            args = event["args"]
            if "Collective name" not in args:
                continue
            group = json.loads(args["Process Group Ranks"])
            assert event["name"].startswith("ncclDevKernel_AllReduce_Sum_")
            assert (len(group), group[args["Rank"]]) == (args["Group size"], rank)
            assert args["In msg nelems"] == args["Out msg nelems"]
            if args["phase"] == "gradient":
                assert (args["dtype"], group) == ("Float", [rank, rank + 2, rank + 4, rank + 6])
                whole += args["In msg nelems"]
            else:
                assert group == [0, 1]
                key = args["In msg nelems"], args["dtype"], args["Process Group Name"]
                tensor[key] += 1
    # a micro-batch of 2 x 256 tokens with 768 features: 4 layers, 2 sums each way; the embedding's
    # sum, and the head's errors; two micro-batches, two ranks
    ((number, dtype, _), count) = next(iter(tensor.items()))
    assert (number, dtype, count, len(tensor)) == (2 * 256 * 768, "BFloat16", (4 * 4 + 2) * 4, 1)
    split = 4 * (12 * 768**2 + 7 * 768) + 50257 * 768  # by tp; the rest is on both
    both = step.case.network.parameters - split
    assert whole == pytest.approx(split + 2 * both, rel=2e-4)


def test_a_rank_has_a_launch_and_a_flow_for_each_kernel(tmp_path: Path) -> None:
    step = stepped(folded=False, parallel="tp=2,pp=2,dp=2", micro_batch=2)
    step.save(tmp_path / "step.pt.trace.json.gz")
    with gzip.open(tmp_path / "step.5.pt.trace.json.gz", "rt") as file:
        trace = json.load(file)
    assert trace["deviceProperties"][0]["name"] == "a100-80"
    groups = trace["distributedInfo"].pop("pg_config")
    known = {"backend": "nccl", "rank": 5, "world_size": 8, "pg_count": len(groups)}
    assert trace["distributedInfo"] == known
    assert groups[0]["ranks"] == list(range(8))
    events: list[Event] = trace["traceEvents"]
    of = {cat: [one for one in events if one.get("cat") == cat] for cat in ("kernel", "ac2g")}
    launches = [one for one in events if one.get("name") == "cudaLaunchKernel"]
    numbers = [one["args"]["correlation"] for one in of["kernel"]]
    assert numbers == [one["args"]["correlation"] for one in launches] == [*{*numbers}]
    assert Counter(one["id"] for one in of["ac2g"]) == dict.fromkeys(numbers, 2)
    assert all(one["tid"] == one["args"]["stream"] for one in of["kernel"])
    (mark,) = (one for one in events if one.get("cat") == "user_annotation")
    assert (mark["name"], mark["dur"]) == (
        "ProfilerStep#0",
        step.timeline.makespan_ps // 1000 / 1000,
    )
    passed = Counter(one["args"].get("Collective name") for one in of["kernel"])
    micro_batches = 16 // 2 // 2
    assert passed["recv"] == passed["send"] == micro_batches


HAND = [
    # two steps of 100 us; times in microseconds
    ("user_annotation", "ProfilerStep#7", 1000, 100, {}),
    ("user_annotation", "ProfilerStep#8", 1100, 100, {}),
    ("cpu_op", "aten::mm", 1000, 5, {}),
    ("kernel", "sm90_xmma_gemm_bf16bf16_bf16f32_tn_n", 1010, 40, {}),  # 1010-1050
    ("kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 1040, 40, {}),  # 30 us exposed
    ("kernel", "void at::native::vectorized_elementwise_kernel<4>", 1090, 10, {}),
    ("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 1100, 20, {}),
    ("kernel", "flash_fwd_kernel", 1120, 30.5, {}),
    ("kernel", "ncclDevKernel_Generic", 1130, 60, {"Collective name": "_allgather_base"}),
    ("kernel", "void cutlass::Kernel<cutlass_80_wmma_tensorop_bf16>", 1145.5, 4.5, {}),
]


def write(path: Path, events: list[Any], **beside: Any) -> Path:
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events, **beside}))
    return path


def hand(path: Path, **beside: Any) -> Path:
    events: list[Event] = [
        {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "pid": 0, "args": args}
        for cat, name, ts, dur, args in HAND
    ]
    flow = {"ph": "s", "id": 1, "cat": "ac2g", "name": "ac2g", "ts": 1000}
    return write(path, [{"ph": "M", "name": "process_name", "pid": 0}, flow, *events], **beside)


def test_a_trace_by_hand_has_the_sums_that_were_worked_out(tmp_path: Path) -> None:
    trace = read_trace(hand(tmp_path / "t.json", distributedInfo={"rank": 3, "world_size": 4}))
    assert (trace.steps, trace.kernels, trace.rank, trace.world_size) == (2, 7, 3, 4)
    found = {key: round(value * 2e6, 6) for key, value in trace.sums.items() if value}
    assert found == {
        "products": 40 + 4.5,
        "attention": 30.5,
        "element-wise": 10,
        "copies": 20,
        "all-reduce": 40,
        "all-gather": 60,
        "exposed communication": 30 + 39.5,  # 1050-1080, 1150.5-1190
        "idle": 10 + 10 + 10,  # 1000-1010, 1080-1090, 1190-1200
        "step": 200,
    }


def test_without_steps_all_of_it_is_one(tmp_path: Path) -> None:
    events = [{"ph": "X", "cat": "kernel", "name": "gemm", "ts": 5e14, "dur": 3}]
    trace = read_trace(write(tmp_path / "t.json", events))
    assert (trace.steps, trace.rank, trace.sums["step"]) == (0, None, 3e-6)


@pytest.mark.parametrize(
    ("name", "collective", "work"),
    [
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", "", "all-reduce"),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgs)", "", "reduce-scatter"),
        ("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "", "all-gather"),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "", "send/recv"),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgs)", "all_to_allv", "all-to-all"),
        ("ncclDevKernel_Generic_4(ncclDevKernelArgs)", "_reduce_scatter_base", "reduce-scatter"),
        ("ncclDevKernel_Generic_4(ncclDevKernelArgs)", "", "other communication"),
        ("void vllm::cross_device_reduce_1stage<__half, 2>", "allreduce", "all-reduce"),
        ("two_shot_all_reduce_kernel", "", "all-reduce"),
        ("Cijk_Ailk_Bljk_BBS_BH_MT128x128x64_MI32x32x8x1", "", "products"),
        ("ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_32x6_nn", "", "products"),
        ("nvjet_tst_128x256_64x4_2x1_v_bz_TNT", "", "products"),
        ("void cudnn::winograd_nonfused::winogradForwardFilter4x4", "", "products"),
        ("sm80_xmma_fprop_implicit_gemm_tf32f32", "", "products"),
        ("void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel", "", "attention"),
        ("fmha_cutlassF_bf16_aligned_64x128_rf_sm80", "", "attention"),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop", "", "attention"),
        ("triton_poi_fused_convolution_relu_0", "", "element-wise"),
        ("triton_tem_fused_mm_3", "", "products"),
        ("void at::native::reduce_kernel<512, 1>", "", "element-wise"),
        ("void multi_tensor_apply_kernel<AdamFunctor>", "", "element-wise"),
    ],
)
def test_names_of_kernels_tell_what_they_do(name: str, collective: str, work: str) -> None:
    assert class_of(name, collective) == work


KERNEL = {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 1, "dur": 1}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not valid JSON"),
        ("[1, 2]", "not valid JSON"),
        ("{", "not valid JSON"),
        ('{"traceEvents": [', "not valid JSON"),
        ('{"traceEvents": [1]}', "an event must be an object"),
        ('{"traceEvents": {}}', "not valid JSON"),
        ('{"traceEvents": []}', "no GPU kernels"),
        (json.dumps({"traceEvents": [KERNEL | {"dur": -1}]}), "dur: -1: must be a number"),
        (json.dumps({"traceEvents": [KERNEL | {"ts": "now"}]}), "ts: 'now': must be"),
        (json.dumps({"traceEvents": [KERNEL | {"ts": 1e19}]}), "ts: 1e\\+19: must be"),
        (json.dumps({"traceEvents": [KERNEL, KERNEL | {"ts": 1e13}]}), "more than 1,000,000 s"),
        ('{"traceEvents": [' + "[" * 100_000, "nested too deep"),
        ('{"a": "' + "x" * (9 << 20) + '"}', "too long a value"),
        ('{"traceEvents": [{"name": "' + "x" * (3 << 20) + '"}]}', "too long a value"),
        ('{"a": ' + "9" * 5000 + "}", "not valid JSON"),
    ],
)
def test_hostile_traces_end_in_one_message(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=said):
        read_trace(path)


def test_files_that_are_no_text_are_told(tmp_path: Path) -> None:
    broken = tmp_path / "t.json.gz"
    broken.write_bytes(gzip.compress(b'{"traceEvents": []}')[:-12])
    with pytest.raises(UsageError, match="cannot be read"):
        read_trace(broken)
    broken.write_bytes(b"\x1f\x8b" + bytes(range(99)))
    with pytest.raises(UsageError, match="cannot be read"):
        read_trace(broken)
    broken.write_bytes(b"\xff\xfe" * 50)
    with pytest.raises(UsageError, match="not a text file"):
        read_trace(broken)


def test_a_file_that_unpacks_to_much_is_not_held(tmp_path: Path) -> None:
    """64 MiB of blanks and 200,000 small values in 100 kB: a window of it is read at a time."""
    path = tmp_path / "t.json.gz"
    inner = b'{"traceEvents": [' + b" " * (64 << 20) + b"{}" + b",{}" * 200_000 + b"]}"
    path.write_bytes(gzip.compress(inner, 1))
    with pytest.raises(UsageError, match="no GPU kernels"):
        read_trace(path)


def covered(events: list[Event]) -> float:
    """Microseconds in which one of the events is under way."""
    whole, behind = 0.0, -math.inf
    for start, end in sorted((one["ts"], one["ts"] + one["dur"]) for one in events):
        whole += max(0.0, end - max(start, behind))
        behind = max(behind, end)
    return whole


@pytest.mark.slow
def test_holistic_trace_analysis_has_our_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Meta's package on our files: to the nanosecond where it does not round to microseconds."""
    analysis = pytest.importorskip("hta.trace_analysis")
    monkeypatch.setenv("HTA_DISABLE_NS_ROUNDING", "1")
    stepped(**AXES["stages"]).save(tmp_path / "step.pt.trace.json")

    def path(rank: int) -> Path:
        return tmp_path / f"step.{rank}.pt.trace.json"

    found = analysis.TraceAnalysis(trace_dir=str(tmp_path))
    overlap = found.get_comm_comp_overlap(visualize=False).set_index("rank")
    shared = overlap["comp_comm_overlap_pctg"]
    table = found.get_temporal_breakdown(visualize=False).set_index("rank")
    assert sorted(table.index) == list(range(8))
    for rank in range(8):
        sums = read_trace(path(rank)).sums
        row = table.loc[rank]
        whole, exposed, idle = (sums[key] for key in ("step", "exposed communication", "idle"))
        computing = whole - exposed - idle
        assert row["compute_time(us)"] == pytest.approx(computing * 1e6, abs=0.01)
        assert row["non_compute_time(us)"] == pytest.approx(exposed * 1e6, abs=0.01)
        passed = covered([e for e in kernels(path(rank)) if e["name"].startswith("nccl")])
        assert shared.loc[rank] == pytest.approx(100 * (1 - exposed * 1e6 / passed), abs=0.01)
        outside = whole * 1e6 - row["kernel_time(us)"]  # before the first, behind the last
        assert row["idle_time(us)"] + outside == pytest.approx(idle * 1e6, abs=0.01)


def test_the_command_says_what_it_cannot_compare(capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in (
        (["--planners", "owt,accpar"], "--trace is compared with one step"),
        ([], "--trace is compared with one step"),
        (["--planners", "owt", "--plot", "p.png"], "there is no picture"),
        (["--planners", "owt"], "none.json: cannot be read"),
    ):
        assert main(["compare", "lenet", "--batch", "8", "--trace", "none.json", *words]) == 2
        assert said in capsys.readouterr().err

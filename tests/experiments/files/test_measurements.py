"""What nccl-tests, rccl-tests and MLPerf's logs say, and links calibrated by the former."""

import csv
import json
from pathlib import Path
from statistics import median
from typing import Any

import pytest

import accelarray
from experiments.cli import main
from experiments.collective import rates
from experiments.files.measurements import mllog, nccl
from experiments.link_calibration import WiresResult, calibrated_wires
from experiments.measured.case import RowCase, ready
from experiments.measured.collectives import known_array
from experiments.measured.rows import load
from experiments.notices import AccelarrayWarning
from experiments.output import UsageError
from hardware import load_array

HEAD = """# nThread 1 nGpus 1 minBytes 1048576 maxBytes 134217728 step: 2(factor) validation: 1
#
# Using devices
"""
COLUMNS = """#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""  # noqa: E501


def ranks(hosts: int, each: int, device: str = "NVIDIA H100 80GB HBM3") -> str:
    return "".join(
        f"#  Rank {host * each + i:2d} Group  0 Pid {4000 + i:6d} on      node{host} device {i:2d} "
        f"[0000:1b:00] {device}\n"
        for host in range(hosts)
        for i in range(each)
    )


def table(name: str, of: list[tuple[float, float]], n: int, redop: str = "sum") -> str:
    lines = [f"# Collective test starting: {name}_perf\n", COLUMNS]
    collective = {"alltoall": "all-to-all"}.get(name, name.replace("_", "-"))
    for size, seconds in of:
        rate = rates(collective, n, size, seconds)
        time = f"{seconds * 1e6:.2f}" if seconds < 1e-3 else f"{seconds * 1e6:.1f}"
        each = f"{time} {rate['algbw_gb_per_s']:.2f} {rate['busbw_gb_per_s']:.2f}      0"
        lines.append(f"{size:12.0f} {size / 4:12.0f}  float  {redop}      -1 {each} {each}\n")
    return "".join([*lines, "# Out of bounds values : 0 OK\n", "# Avg bus bandwidth    : 99\n"])


MI300X = """[1,0]<stdout>:rccl-tests: Version develop:5b27b96
[1,0]<stdout>:# Using devices
[1,0]<stdout>:#  Rank  0 Group  0 Pid 2532785 on   node0 device  0 [0000:05:00] AMD Instinct MI300X
[1,0]<stdout>:#  Rank  1 Group  0 Pid 2565224 on   node1 device  0 [0000:05:00] AMD Instinct MI300X
[1,0]<stdout>:#       size         count      type   redop    root     time   algbw   busbw #wrong
[1,0]<stdout>:           0             0     float    none      -1     0.19    0.00    0.00    N/A
[1,0]<stdout>:     1048576        131072     float    none      -1  4366.46    0.24    0.12    N/A
node0:15718:15718 [0] NCCL INFO NET/IB : Using [0]mlx5_2:1/RoCE [RO]; OOB eth0:10.244.1.10<0>
[1,0]<stdout>:     2097152        262144     float    none      -1  4370.57    0.48    0.24      0
[1,0]<stdout>:# Avg bus bandwidth    : 0.12  (all_gather_perf)
"""


def test_tables_of_both_programs_are_read() -> None:
    found = nccl(MI300X, "out.txt")
    assert (found.device, found.on_nodes, found.ranks) == ("AMD Instinct MI300X", (1, 1), 2)
    assert [(one.collective, one.bytes, one.seconds) for one in found.rows] == [
        ("all-gather", 1048576.0, 4366.46 / 1e6),
        ("all-gather", 2097152.0, 4370.57 / 1e6),
    ]
    text = HEAD + ranks(2, 8) + table("all_reduce", [(2**27, 1.2e-3)], 16)
    of = nccl(text, "x.txt")
    assert (of.nodes, of.ranks, len(of.rows), of.rows[0].seconds) == (2, 16, 1, 1.2e-3)


GOOD = HEAD + ranks(1, 8) + table("all_reduce", [(2**27, 1e-3)], 8)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("all_reduce_perf", "sendrecv_perf", "sendrecv_perf is not simulated"),
        ("# Collective test starting: all_reduce_perf", "#", "which collective is not said"),
        ("#  Rank", "#  Line", "who took part"),
        (ranks(1, 8), ranks(1, 1), "one rank exchanges nothing"),
        ("134217728", "13421772x", "0 rows of sizes and times"),
        (" 134.22 ", " 13.42 ", "algbw 13.42 is not 134217728 B in 1000.0 us"),
    ],
)
def test_what_is_wrong_with_a_table_is_told(old: str, new: str, said: str) -> None:
    assert old in GOOD
    with pytest.raises(UsageError, match=said):
        nccl(GOOD.replace(old, new, 1 if old == " 134.22 " else -1), "out.txt")


@pytest.mark.parametrize("time", ["nan", "-1.00", "0.00"])
def test_rows_without_a_time_are_told(time: str) -> None:
    text = GOOD + table("all_reduce", [(2**20, 1e-3)], 8).replace("1000.0", time)
    line = next(n for n, one in enumerate(text.splitlines(), 1) if time in one.split())
    with pytest.warns(AccelarrayWarning, match=rf"out.txt: rows .* left out: 1 \(line {line}\)"):
        assert len(nccl(text, "out.txt").rows) == 1


SIZES = [float(1 << power) for power in range(12, 30, 2)]


@pytest.mark.parametrize(
    ("array", "hosts", "level", "settings"),
    [
        ("h100-cluster", 2, 1, {"efficiency": 0.62, "latency": "23 us"}),
        ("ring-of-gpus", 1, 0, {"efficiency": 0.71, "latency": "4 us"}),
    ],
)
def test_constants_that_times_were_made_with_are_found_again(
    array: str, hosts: int, level: int, settings: dict[str, Any], tmp_path: Path
) -> None:
    if array == "ring-of-gpus":
        array = str(tmp_path / "mine.toml")
        levels = 'kind = "switch"\nbandwidth = "300 GB/s"\nlatency = "9 us"\n'
        Path(array).write_text(
            'kind = "array"\ndevices = [{device = "a100-80", count = 8}]\n'
            f'[topology]\njoins = "chips"\n[[topology.levels]]\n{levels}'
        )
    key = f"topology.levels.{level}"
    change = {f"{key}.{name}": value for name, value in settings.items()}
    if hosts > 1:
        change["nodes"] = hosts
    times = [accelarray.collective("all-reduce", size, array, set=change).time_s for size in SIZES]
    text = (
        HEAD
        + ranks(hosts, 8)
        + table("all_reduce", list(zip(SIZES, times, strict=True)), 8 * hosts)
    )
    found = calibrated_wires(nccl(text, "out.txt"), array)
    assert found.level == level
    assert found.link.efficiency == pytest.approx(settings["efficiency"], rel=0.02)
    latency_us = float(settings["latency"].removesuffix(" us"))
    assert found.link.latency_s * 1e6 == pytest.approx(latency_us, rel=0.05)
    assert max(abs(one.error) for one in found.fits) < 0.02


def test_hosts_of_a_rack_are_trays_of_one_node() -> None:
    """32 of the 72 GPUs of one NVLink domain, on eight hosts of four."""
    change = {"nodes": 1, "topology.levels.0.efficiency": 0.5}
    rack = {"devices.0.count": 32}
    times = [
        accelarray.collective("all-reduce", size, "gb200-cluster", set=change | rack).time_s
        for size in SIZES
    ]
    text = HEAD + ranks(8, 4) + table("all_reduce", list(zip(SIZES, times, strict=True)), 32)
    found = calibrated_wires(nccl(text, "out.txt"), "gb200-cluster")
    assert (found.level, found.nodes) == (0, 1)
    assert found.link.efficiency == pytest.approx(0.5, rel=0.02)
    assert "taken for trays of gb200-cluster's nodes of 72" in found.to_dict()["notes"][0]


def test_hosts_of_an_array_of_nodes_are_no_trays(tmp_path: Path) -> None:
    """Its file has 32 GPUs in nodes of eight: two hosts cross the network."""
    path = tmp_path / "mine.toml"
    path.write_text(
        'kind = "array"\nexecution = "deployed"\n[topology]\njoins = "chips"\n'
        '[[topology.levels]]\nkind = "switch"\nmembers = 8\nbandwidth = "300 GB/s"\n'
        '[[topology.levels]]\nkind = "switch"\nbandwidth = "200 Gbit/s"\nlatency = "9 us"\n'
        '[[devices]]\ndevice = "a100-80"\ncount = 32\n'
    )
    times = [(size, size / 1e10) for size in SIZES]
    found = calibrated_wires(
        nccl(HEAD + ranks(2, 8) + table("all_reduce", times, 16), "out.txt"), str(path)
    )
    assert (found.level, found.nodes, found.notes) == (1, 2, ())


def test_slow_protocols_and_slow_links_are_told_apart() -> None:
    """Messages of 33 MB still go by LL128 here, and say nothing of efficiency alone."""
    key = "topology.levels.0"
    slower = [
        f"{one.name} {one.algorithm}: {one.start_s * 2e6:.4g} us + {one.step_s * 2e6:.4g} us a "
        f"step at {one.share:g}"
        for one in load_array("h100-cluster").topology.levels[0].protocols
    ]
    change = {"nodes": 1, f"{key}.efficiency": 0.7, f"{key}.protocols": slower}
    sizes = [float(1 << power) for power in range(12, 34)]
    times = [
        accelarray.collective("all-gather", size, "h100-cluster", set=change).time_s
        for size in sizes
    ]
    text = HEAD + ranks(1, 8) + table("all_gather", list(zip(sizes, times, strict=True)), 8, "none")
    found = calibrated_wires(nccl(text, "out.txt"), "h100-cluster")
    assert found.link.efficiency == pytest.approx(0.7, rel=0.02)
    assert found.link.slower == pytest.approx(2, rel=0.02)
    assert not found.notes


def test_constants_that_are_to_be_doubted_are_told() -> None:
    one = calibrated_wires(nccl(GOOD, "out.txt"), "h100-cluster")
    assert one.notes == ("Few rows (1): 3 say more than their own times.",)
    slow = [(size, size / 2e7) for size in SIZES]
    far = calibrated_wires(
        nccl(HEAD + ranks(1, 8) + table("all_reduce", slow, 8), "out.txt"), "h100-cluster"
    )
    assert "ended at its bound" in far.notes[0]


@pytest.mark.parametrize(
    ("device", "array"),
    [
        ("NVIDIA A100-SXM4-40GB", "a100-40-cluster"),
        ("NVIDIA A100-SXM4-80GB", "a100-cluster"),
        ("AMD Instinct MI300X", "mi300x-cluster"),
        ("Tesla V100-SXM2-32GB", "v100-cluster"),
        ("NVIDIA GH200 480GB", "gh200-cluster"),
        ("Tesla T4", None),
    ],
)
def test_arrays_by_the_names_that_drivers_have(device: str, array: str | None) -> None:
    assert known_array(device) == array
    assert array is None or load_array(array)


def test_what_rows_do_not_tell_stays_as_it_was() -> None:
    """Of large messages the latency makes no difference; what is measured is as it was."""
    sizes = [float(1 << power) for power in (30, 31, 32)]
    one_node = {"nodes": 1}
    times = [
        accelarray.collective("all-gather", size, "a100-cluster", set=one_node).time_s
        for size in sizes
    ]
    text = HEAD + ranks(1, 8) + table("all_gather", list(zip(sizes, times, strict=True)), 8, "none")
    found = calibrated_wires(nccl(text, "out.txt"), "a100-cluster")
    tier = load_array("a100-cluster").topology.levels[0]
    assert found.link.latency_s == pytest.approx(tier.latency_s, rel=1e-6)
    assert max(abs(one.error) for one in found.fits) < 0.002


def test_the_command_writes_an_array_that_has_these_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    few = [(float(1 << power), 1e-5 + 2 * (1 << power) / 2e11) for power in (16, 20, 24, 28, 30)]
    Path("all_reduce.txt").write_text(HEAD + ranks(1, 8) + table("all_reduce", few, 8))
    assert main(["papers", "calibrate", "all_reduce.txt", "--output", "mine.toml"]) == 0
    assert "calibrated by all-reduce of 8 ranks" in capsys.readouterr().out
    large = accelarray.collective("all-reduce", 2.0**30, "mine.toml", set={"nodes": 1})
    assert large.time_s == pytest.approx(few[-1][1], rel=0.1)
    before = accelarray.collective("all-reduce", 2.0**30, "h100-cluster", set={"nodes": 1})
    assert abs(before.time_s / few[-1][1] - 1) > 0.2
    found = accelarray.calibrate("all_reduce.txt", array="dgx-a100")
    assert isinstance(found, WiresResult)
    assert found.to_dict()["constants"].keys() == {
        f"topology.levels.0.{key}" for key in ("efficiency", "latency", "protocols")
    }
    for words, said in (
        (["all_reduce.txt", "--array", "ring-8"], "has no topology.levels"),
        (["all_reduce.txt", "--array", "h100-cluster", "--output", "x.csv"], "ends in .toml"),
    ):
        assert main(["calibrate", *words]) == 2
        assert said in capsys.readouterr().err
    # two ranks are the two cores of one chip: no link says anything of them
    pair = HEAD + ranks(1, 2) + table("all_reduce", few, 2)
    Path("two.txt").write_text(pair)
    Path("cores.toml").write_text(
        'kind = "array"\nexecution = "deployed"\n[topology]\njoins = "chips"\n'
        '[[topology.levels]]\nkind = "switch"\nbandwidth = "25 GB/s"\n'
        '[[devices]]\ndevice = "tpu-v3"\ncount = 2\n'
    )
    assert main(["calibrate", "two.txt", "--array", "cores.toml", "--output", "no.toml"]) == 2
    assert "which send nothing over links of level 0" in " ".join(capsys.readouterr().err.split())
    assert not Path("no.toml").exists()
    Path("all_reduce.txt").write_text(Path("all_reduce.txt").read_text().replace("H100", "X1"))
    assert main(["calibrate", "all_reduce.txt"]) == 2
    assert "no array of the catalog has it" in capsys.readouterr().err
    assert main(["read", "all_reduce.txt"]) == 2
    assert "papers calibrate all_reduce.txt reads it" in capsys.readouterr().err


def log(**values: Any) -> str:
    """An MLPerf log: 3 steps of 64 samples in 2.5 s each between evaluations."""
    lines = ["0: starting", "Step 1 of 100"]
    known = {
        "submission_benchmark": "llama31_8b",
        "submission_org": "Somebody",
        "submission_platform": "2xDGX H100",
        "global_batch_size": 64,
        "micro_batch_size": 2,
        "max_sequence_length": 8192,
        "tensor_parallelism": 2,
        "pipeline_parallelism": 1,
        "number_of_nodes": 2,
        "accelerators_per_node": 8,
        "lowest_numerical_precision_in_linear": "bf16",
    } | values
    at = 1_700_000_000_000
    for key, value in known.items():
        lines.append(event(at, key, value))
    for block in range(2):
        lines.append(event(at, "block_start", None, samples_count=64 + 192 * block))
        at += 7500
        lines.append(event(at, "block_stop", None, samples_count=64 + 192 * (block + 1)))
        at += 30_000  # an evaluation
    return "\n".join(f"0: {line}" if line.startswith(":") else line for line in lines)


def event(at: int, key: str, value: object, **metadata: object) -> str:
    kind = {"block_start": "INTERVAL_START", "block_stop": "INTERVAL_END"}
    what = {"namespace": "", "time_ms": at, "event_type": kind.get(key, "POINT_IN_TIME")}
    said = {"key": key, "value": value, "metadata": {"file": "x.py", "lineno": 1, **metadata}}
    return f":::MLLOG {json.dumps(what | said)}"


def test_a_logs_own_length_of_samples_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text(log(max_sequence_length=4096))
    assert load(str(path))[0].seq == 4096


def test_blocks_of_a_log_count_by_their_samples(tmp_path: Path) -> None:
    """Also the first, which begins at none: steps of 64 samples take 3 s in most of them."""
    lines, at = [log().splitlines()[2:]], 0
    head = [line for line in lines[0] if "block_" not in line]
    path = tmp_path / "x.log"
    for before, behind, seconds in ((0, 192, 9), (192, 256, 1), (256, 320, 30)):
        head.append("0: " + event(at + 1, "block_start", None, samples_count=before))
        at += 1000 * seconds
        head.append("0: " + event(at + 1, "block_stop", None, samples_count=behind))
        path.write_text("\n".join(head))
        assert load(str(path))[0].step_s == 3.0


def test_words_of_a_log_stay_words_in_its_row(tmp_path: Path) -> None:
    """Quotes, commas, new lines and what a spreadsheet would take for a formula."""
    path = tmp_path / "x.log"
    path.write_text(log(submission_org='A "B", C\nD', submission_benchmark="=1+1\nx,y"))
    target = tmp_path / "rows.csv"
    accelarray.read(path).save(target)
    lines = [line for line in target.read_text().splitlines() if not line.startswith("#")]
    (cells,) = csv.DictReader(lines)
    assert cells["source"] == 'MLPerf A "B", C D'
    assert cells["model"] == "'=1+1 x,y"


def test_an_mlperf_log_is_a_row_that_is_simulated(tmp_path: Path) -> None:
    path = tmp_path / "result_0.txt"
    path.write_text(log())
    (row,) = load(str(path))
    assert (row.id, row.hw, row.gpus, row.gpus_per_node) == ("result_0", "H100", 16, 8)
    assert (row.layers, row.hidden, row.kv_heads, row.vocab) == (32, 4096, 8, 128256)
    assert (row.gbs, row.mbs, row.seq, row.tp, row.pp) == (64, 2, 8192, 2, 1)
    assert (row.precision, row.step_s, row.source) == ("bf16", 2.5, "MLPerf Somebody")
    one = ready(row)
    assert isinstance(one, RowCase)
    assert one.case.batch == 64
    found = accelarray.read(path)
    again = tmp_path / "rows.csv"
    found.save(again)
    assert load(str(again)) == (row,)
    assert found.to_dict()["row"]["step_s"] == "2.5"


@pytest.mark.parametrize(
    ("values", "step"),
    [
        ({"tracked_stats": {"train_step_time": 1.25}}, "1.25"),
        ({"tracked_stats": {"throughput": 128.0}}, "2.5"),  # blocks are surer
    ],
)
def test_steps_are_taken_from_what_says_them_best(values: dict[str, Any], step: str) -> None:
    assert mllog(log(**values), "x.log").cells["step_s"] == step


def test_without_blocks_throughput_counts_and_is_told() -> None:
    text = "\n".join(
        line for line in log(tracked_stats={"throughput": 128.0}).split("\n") if "block" not in line
    )
    found = mllog(text, "x.log")
    assert found.cells["step_s"] == "0.5"
    assert "step_s: from throughput, taken as samples a second" in found.notes


def test_what_a_log_does_not_say_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.log"
    path.write_text(log(submission_benchmark="bert", number_of_nodes=None))
    with pytest.raises(UsageError, match=r"write the network's sizes; gpus: not in the log"):
        load(str(path))
    assert main(["read", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "# gpus: not in the log; write it" in shown
    assert "run,MLPerf Somebody,step,H100,,8," in shown
    path.write_text(":::MLLOG {1}")
    assert main(["read", str(path)]) == 2
    assert "run.log:1: not valid JSON" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("times", "worse"), [((6e-5, 1.1e-4, 8e-4), False), ((2e-4, 1.5e-4, 1e-3), True)]
)
def test_constants_that_fit_worse_are_told(times: tuple[float, ...], worse: bool) -> None:
    """By the median of the errors, beside those that the array has."""
    rows = list(zip((2.0**18, 2.0**24, 2.0**28), times, strict=True))
    text = HEAD + ranks(1, 8) + table("all_reduce", rows, 8)
    found = calibrated_wires(nccl(text, "out.txt"), "dgx-h100")
    after = median(abs(one.error) for one in found.fits)
    before = median(abs(one.before_s / one.measured_s - 1) for one in found.fits)
    assert (after > before) == worse
    assert any("fit better" in str(part) for part in found.tables()) == worse

import json
import math
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import accelarray
from experiments.cli import main
from experiments.output import UsageError
from experiments.results.sweeps import axes_of
from experiments.studies.case import Case
from experiments.studies.options import parse_vary
from experiments.studies.running import cluster, runner
from experiments.studies.running.outputs import Outputs, run_case
from experiments.studies.running.runner import Runner
from experiments.studies.running.store import Store, StoreError
from experiments.studies.sweep import Grid, crossovers, sweep
from hardware import Array, Group, load_array
from workloads import Builder, Network, load_network

LENET = load_network("lenet")
BANDWIDTHS = parse_vary("network.bandwidth=1 Gbit/s:1 Tbit/s:log:3")
SMALL = ("devices.0.count=2", "devices.1.count=2")
GRID = Grid((LENET,), ("owt", "accpar"), "accpar-mixed", (BANDWIDTHS,), SMALL)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("parallel=dp=4,tp=2; dp=8", ["dp=4,tp=2", "dp=8"]),
        ("parallel=dp=4,tp=2;", ["dp=4,tp=2"]),
        ("parallel=dp=4,tp=2", ["dp=4", "tp=2"]),
        ("stage_layers=7;3,5;5", ["7;3", "5;5"]),
    ],
)
def test_semicolons_part_values_with_commas(text: str, values: list[str]) -> None:
    assert [value.text for value in parse_vary(text).values] == values
    key, _, rest = text.partition("=")
    if rest.endswith(";"):
        assert parse_vary(f"{key}={rest}") == axes_of({key: values})[0]


def test_a_tidy_table() -> None:
    table = sweep(replace(GRID, axes=(BANDWIDTHS, parse_vary("batch=64,128"))))
    assert len(table) == 3 * 2 * 2
    assert list(table["planner"][:2]) == ["owt", "accpar"]
    assert table["network.bandwidth [bit/s]"].is_monotonic_increasing
    assert sorted(set(table["batch"])) == [64, 128]
    shares = table["computing"] + table["communicating"] + table["waiting"]
    assert shares.to_list() == pytest.approx([1.0] * 12)
    row = table.iloc[3]
    array = load_array("accpar-mixed", [*SMALL, "network.bandwidth=1 Gbit/s"])
    own = run_case(Case(LENET, "accpar", array, 128))["iteration_s"]
    base = run_case(Case(LENET, "data_parallel", array, 128))["iteration_s"]
    assert own is not None
    assert base is not None
    assert row["iteration_s"] == own
    assert row["speedup"] == base / own


def test_arrays_can_be_varied_too() -> None:
    axis = parse_vary("array=accpar-mixed,accpar-homogeneous")
    table = sweep(replace(GRID, axes=(axis,), settings=()))
    assert list(table["array"]) == ["accpar-mixed"] * 2 + ["accpar-homogeneous"] * 2
    assert list(table["accelerators"]) == [256, 256, 128, 128]


def test_files_of_one_name_are_told_apart_by_their_paths(tmp_path: Path) -> None:
    """Their arrays are called alike, each by its file; the picture has all of their steps."""
    files = [tmp_path / one / "chip.toml" for one in ("first", "second")]
    for file, name in zip(files, ("tpu-v2-8", "tpu-v3-8"), strict=True):
        file.parent.mkdir()
        file.write_text(f'kind = "array"\nextends = "{name}"\n')
    varied = {"array": list(map(str, files)), "batch": [64, 128]}
    found = accelarray.sweep(varied, "lenet", "data_parallel", set=["optimizer=adam"])
    names = [f"{file}, optimizer=adam" for file in files]
    assert list(found.table["array"]) == [names[0]] * 2 + [names[1]] * 2
    (image,) = found.plot().axes[0].images
    microseconds = 1e6 * found.table["iteration_s"].to_numpy()
    assert np.asarray(image.get_array()).T.ravel() == pytest.approx(microseconds)


def test_a_map_of_names_has_all_steps() -> None:
    """Cells of the table say more than what was typed."""
    axes = {"array": ["tpu-v2-8", "tpu-v3-8"], "batch": [64, 128]}
    found = accelarray.sweep(axes, "lenet", "data_parallel", set=["optimizer=adam"])
    (image,) = found.plot().axes[0].images
    cells = np.asarray(image.get_array(), dtype=float)
    assert np.isfinite(cells).all()
    assert cells.shape == (2, 2)


def test_the_key_is_everything_that_changes_the_answer() -> None:
    def device(**changes: Any) -> Array:
        first, second = load_array("accpar-mixed", SMALL).group.kinds
        return Array("a", "", Group(((replace(first[0], **changes), 2), second)))

    def network(kernel: int = 3, name: str = "conv") -> Network:
        net = Builder("net", 3, 8, 8)
        net.conv(name, 4, kernel, padding=kernel // 2)
        return net.build()

    case = Case(network(), "accpar", device(), 64)
    alike = [
        replace(case, network=network(name="other")),
        replace(case, array=Array("other name", "other words", device().group)),
    ]
    assert {other.key for other in alike} == {case.key}
    different = [
        case,
        replace(case, network=network(kernel=5)),
        replace(case, planner="hypar"),
        replace(case, batch=65),
        replace(case, objective="traffic"),
        replace(case, array=device(network_bytes_per_s=3e9)),
        replace(case, array=device(chip_peak_flops_per_s=3e12)),
        replace(case, array=device(hbm_bytes_per_s=3e12)),
        *(replace(case, array=load_array("ring-8").part(first, 2)) for first in (0, 1)),
    ]
    assert len({other.key for other in different}) == len(different)
    assert len(case.key) == 64


def test_a_new_model_version_is_a_new_key(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(LENET, "owt", load_array("accpar-mixed"), 512)
    before = case.key
    monkeypatch.setattr("experiments.studies.case.MODEL_VERSION", -1)
    assert case.key != before


def test_only_what_is_missing_is_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def counting(case: Case) -> Outputs:
        ran.append(case.key)
        return run_case(case)

    monkeypatch.setattr(runner, "run_case", counting)
    with Store(tmp_path / "s.db") as store:
        first = sweep(GRID, Runner(store))
        assert len(ran) == len(set(ran)) == 3 * 3  # with the baseline
        again = sweep(GRID, Runner(store))
        assert len(ran) == 9
        wider = sweep(
            replace(GRID, axes=(parse_vary("network.bandwidth=1 Gbit/s,2 Gbit/s"),)), Runner(store)
        )
        assert len(ran) == 9 + 3
    pandas.testing.assert_frame_equal(first, again)
    assert len(wider) == 4


def test_processes_give_the_same_table(tmp_path: Path) -> None:
    with Store(tmp_path / "s.db") as store:
        pandas.testing.assert_frame_equal(sweep(GRID, Runner(store, jobs=2)), sweep(GRID))
        assert len(store) == 9


def test_a_failing_store_keeps_what_was_finished(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with Store(path) as store:
        pages = store._db.execute("PRAGMA page_count").fetchone()[0]
        store._db.execute(f"PRAGMA max_page_count = {pages + 1}")
        grid = replace(GRID, axes=(parse_vary("network.bandwidth=1 Gbit/s:1 Tbit/s:log:20"),))
        with pytest.raises(StoreError, match=r"disk is full. Results stored before are intact"):
            sweep(grid, Runner(store))
    with Store(path) as store:
        kept = len(store)
        assert 0 < kept < 60
        sweep(grid, Runner(store))
        assert len(store) == 60


def test_values_that_make_no_sense_fail_before_any_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "run_case", lambda case: pytest.fail("ran"))
    for text in ("batch=1,x", "objective=joy", "devices.7.count=1,2", "network.bandwidth=1,2"):
        with pytest.raises(ValueError, match=r"batch=x|objective=joy|no such entry|needs a unit"):
            sweep(replace(GRID, axes=(parse_vary(text),)))
    huge = (parse_vary("batch=1:100000:lin:100000"), parse_vary("devices.0.count=1:9:lin:9"))
    with pytest.raises(UsageError, match="too large"):
        sweep(replace(GRID, axes=huge))


def test_crossovers_are_where_two_lines_meet() -> None:
    """Speedups x and 100/x (straight in logarithms) meet at 10."""
    values = [1.0, 4.0, 16.0, 64.0]
    axis = parse_vary("network.bandwidth=1 B/s,4 B/s,16 B/s,64 B/s")
    rows = [("net", "a", x, x) for x in values] + [("net", "b", x, 100 / x) for x in values]
    table = pandas.DataFrame(rows, columns=["network", "planner", axis.title, "speedup"])
    (cross,) = crossovers(table, axis)
    assert (cross.first, cross.second) == ("a", "b")
    assert cross.value == pytest.approx(10)
    assert (cross.below, cross.above) == (4, 16)
    assert cross.speedup == pytest.approx(10)


def test_crossovers_on_a_point_and_over_a_stretch() -> None:
    axis = parse_vary("batch=1,2,3,4,5")

    def crossed(first: list[float], second: list[float]) -> list[float]:
        rows = [("net", "a", x, y) for x, y in enumerate(first, 1)]
        rows += [("net", "b", x, y) for x, y in enumerate(second, 1)]
        table = pandas.DataFrame(rows, columns=["network", "planner", axis.title, "speedup"])
        found = crossovers(table, axis)
        assert all(cross.below == cross.value == cross.above for cross in found)
        return [cross.value for cross in found]

    assert crossed([1, 2, 3, 4, 5], [5, 4, 3, 2, 1]) == [pytest.approx(3)]
    assert crossed([1, 2, 2, 4, 5], [5, 2, 2, 2, 1]) == [pytest.approx(2)]
    assert crossed([1, 2, 3, 4, 5], [1, 3, 3, 5, 6]) == []  # touching is not crossing


def test_networks_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="several networks are called lenet"):
        sweep(replace(GRID, networks=(LENET, LENET)))


def test_a_crossover_of_a_real_sweep_is_one() -> None:
    """LeNet under One Weird Trick wins for small batches; at the crossover both take as long."""
    axis = parse_vary("batch=16:4096:log:9")
    table = sweep(Grid((LENET,), ("data_parallel", "owt"), "accpar-mixed", (axis,), SMALL))
    (cross,) = crossovers(table, axis)
    assert (cross.first, cross.second) == ("data_parallel", "owt")
    near = (math.floor(cross.value * 0.9), math.ceil(cross.value * 1.1))
    finer = parse_vary(f"batch={near[0]},{near[1]}")
    speedups = sweep(Grid((LENET,), ("owt",), "accpar-mixed", (finer,), SMALL))["speedup"]
    assert speedups[0] > 1 > speedups[1]


def command(store: Path, *more: str) -> list[str]:
    """200 cases: 50 bandwidths, three planners and the baseline."""
    vary = "network.bandwidth=1 Gbit/s:1 Tbit/s:log:50"
    settings = [part for change in SMALL for part in ("--set", change)]
    args = ["sweep", "--vary", vary, "--networks", "lenet", *settings, "--store", str(store), *more]
    return [sys.executable, "-m", "experiments.cli", *args]


@pytest.mark.parametrize("jobs", [pytest.param("1", marks=pytest.mark.slow), "2"])
def test_kill_nine_at_any_moment(tmp_path: Path, jobs: str) -> None:
    """Six kills over both runs of this test; what is stored stays, the table is the same."""
    whole, store = tmp_path / "whole.csv", tmp_path / "s.db"
    subprocess.run(
        command(tmp_path / "other.db", "--jobs", "1", "--output", str(whole)),
        check=True,
        capture_output=True,
    )
    rng = random.Random(int(jobs))  # noqa: S311  (not cryptography)
    kept: dict[str, dict[str, object]] = {}
    sizes = []
    for _ in range(3):
        process = subprocess.Popen(
            command(store, "--jobs", jobs),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        time.sleep(rng.uniform(0.3, 1.2))
        process.send_signal(signal.SIGKILL)
        process.wait()
        if store.exists():
            with Store(store) as opened:
                now = {str(row["key"]): row for row in opened.rows()}
            assert kept.items() <= now.items()  # nothing lost, nothing written again
            kept = now
            sizes.append(len(kept))
    finished = tmp_path / "finished.csv"
    subprocess.run(
        command(store, "--jobs", jobs, "--output", str(finished)), check=True, capture_output=True
    )
    assert finished.read_text() == whole.read_text()
    with Store(store) as opened:
        assert len(opened) == 200
        assert kept.items() <= {str(row["key"]): row for row in opened.rows()}.items()


def test_two_sweeps_into_one_store_at_once(tmp_path: Path) -> None:
    runs = [
        subprocess.Popen(
            command(tmp_path / "s.db", "--jobs", "1", "--output", str(tmp_path / f"{i}.csv")),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        for i in range(2)
    ]
    assert [(run.communicate()[1], run.returncode) for run in runs] == [(b"", 0)] * 2
    assert (tmp_path / "0.csv").read_text() == (tmp_path / "1.csv").read_text()
    with Store(tmp_path / "s.db") as store:
        assert len(store) == 200


def cli(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert main(args) == 0
    return capsys.readouterr().out


def read(path: Path) -> pandas.DataFrame:
    if path.suffix == ".csv":
        return pandas.read_csv(path)
    return pandas.read_json(path) if path.suffix == ".json" else pandas.read_parquet(path)


@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
def test_the_command_writes_tables(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, ending: str
) -> None:
    output, store = tmp_path / f"t.{ending}", tmp_path / "s.db"
    args = ["sweep", "--vary", "batch=64,128", "--networks", "lenet", "--jobs", "1"]
    cli(capsys, *args, "--output", str(output), "--store", str(store))
    table = read(output)
    assert len(table) == 2 * 4
    assert list(table["batch"]) == [64] * 4 + [128] * 4
    exported = tmp_path / f"e.{ending}"
    cli(capsys, "results", "export", "--store", str(store), "--output", str(exported))
    stored = read(exported)
    assert set(stored["key"]) == set(table["key"])
    assert "8 results" in cli(capsys, "results", "list", "--store", str(store))
    moved = cli(capsys, "results", "list", "--store", str(store), "--metrics", "traffic")
    assert "traffic_bytes" in moved
    assert "iteration_s" not in moved
    pruned = cli(
        capsys,
        "results",
        "prune",
        "--store",
        str(store),
        "--where",
        "batch=64",
        "--where",
        "planner=owt",
    )
    assert pruned == "1 results deleted\n"
    assert main(["results", "prune", "--store", str(store), "--where", "planer=owt"]) == 2
    assert "no result has it; did you mean planner?" in capsys.readouterr().err


@pytest.mark.parametrize("vary", [["batch=64,128,256"], ["batch=64,128", "devices.0.count=1,2,4"]])
def test_the_command_draws(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, vary: list[str]
) -> None:
    plot = tmp_path / "p.svg"
    varied = [part for text in vary for part in ("--vary", text)]
    args = ["--networks", "lenet,alexnet", "--planners", "owt,accpar", "--jobs", "1"]
    out = cli(capsys, "sweep", *varied, *args, "--plot", str(plot))
    assert out.count("accpar ") >= 6
    assert plot.read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--vary", "batch=1", "--vary", "batch=2"], "varied twice"),
        (["--vary", "batch=1", "--output", "t.xls"], "this command has no xls; it writes"),
        (["--vary", "batch=1", "--plot", "t.gif"], "must end in .png"),
        (["--vary", "batch=1", "--jobs", "0"], "must be at least 1"),
        (["--vary", "batch=1", "--store", "/nowhere/s.db"], "Is the folder there"),
        (["--vary", "batch=1", "--cluster", "tcp://127.0.0.1:9"], "no scheduler answers"),
        (["--vary", "batch=1", "--cluster", "foo"], "expected a scheduler's address"),
        (["--vary", "batch=1", "--store", ""], "Is the folder there"),
        (["--vary", "network.bandwidth=8 Gbit/s,1 GB/s"], "in one unit"),
        (
            [
                "--vary",
                "batch=1,2",
                "--vary",
                "devices.0.count=1,2",
                "--vary",
                "devices.1.count=1,2",
                "--plot",
                "three.png",
            ],
            "one or two varied keys",
        ),
        (["--vary", "batch"], "expected KEY="),
        (["--vary", "devices.0.cuont=1"], "unknown key"),
    ],
)
def test_users_errors(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, args: list[str], words: str
) -> None:
    monkeypatch.setattr(cluster, "CONNECT_S", 2.0)
    assert main(["sweep", "--networks", "lenet", "--planners", "owt", *args]) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert "Traceback" not in captured.err


def test_json_rows_hold_plain_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "t.json"
    cli(capsys, "sweep", "--vary", "batch=64", "--networks", "lenet", "--output", str(output))
    (first, *_) = json.loads(output.read_text())
    assert first["peak_memory_bytes"] is None
    assert first["planner"] == "data_parallel"
    own = run_case(Case(LENET, "data_parallel", load_array("accpar-mixed"), 64))
    hidden = {"energy_j", "traffic_bytes", "memory", "computing_by_kind"}
    assert not hidden & first.keys()
    assert {key: first[key] for key in own.keys() - hidden} == {  # to the last digit
        key: value for key, value in own.items() if key not in hidden
    }


def test_plans_that_lose_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    args = ["sweep", "--networks", "lenet", "--planners", "owt,hypar", "--jobs", "1"]
    args += ["--array", "tpu-v2-8", "--execution", "deployed", "--vary", "batch=32768,65536"]
    assert main(args) == 0
    out = capsys.readouterr().out
    assert "owt is slower than data parallelism for lenet in 2 of 2 cases\n" in out
    assert "hypar is slower" not in out
    assert main([*args, "--set", "devices.0.hbm.capacity=64 MiB"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "data parallelism does not fit in memory in 2 of its 2 cases: no speedup over it" in out
    assert "slower than data parallelism" not in out


def test_options_of_the_deployed_model_vary(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "t.csv"
    cli(
        capsys,
        "sweep",
        *("--array", "tpu-v2-8", "--execution", "deployed", "--networks", "lenet"),
        *("--vary", "overlap=full,none", "--vary", "bucket=1 kB,1 MB", "--planners", "owt"),
        *("--output", str(output), "--jobs", "1"),
    )
    table = pandas.read_csv(output)
    assert list(table["overlap"]) == ["full", "full", "none", "none"]
    assert list(table["bucket [B]"]) == [1e3, 1e6, 1e3, 1e6]
    assert table["key"].is_unique
    apart, together = table[table["overlap"] == "none"], table[table["overlap"] == "full"]
    assert (apart["iteration_s"].to_numpy() > together["iteration_s"].to_numpy()).all()


@pytest.mark.parametrize(
    ("varied", "words"),
    [
        ("overlap=full", "overlap=full has no meaning under the published execution model"),
        ("execution=other", "--vary execution=other: one of published, deployed"),
    ],
)
def test_options_that_make_no_sense(
    capsys: pytest.CaptureFixture[str], varied: str, words: str
) -> None:
    assert main(["sweep", "--networks", "lenet", "--vary", varied]) == 2
    assert words in capsys.readouterr().err
    deployed = ["--execution", "deployed", "--vary", "shards=half"]
    assert main(["sweep", "--networks", "lenet", *deployed]) == 2
    assert "shards=half: one of whole, exact" in capsys.readouterr().err


def test_the_table_has_units_people_use_and_a_file_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    vary = "network.bandwidth=1 Gbit/s:1 Tbit/s:log:3"
    args = ("sweep", "--networks", "lenet", "--planners", "owt", "--jobs", "1", "--vary", vary)
    assert main(args) == 0
    out = capsys.readouterr().out
    assert "31.62 Gbit/s" in out
    assert "e+" not in out
    assert main([*args, "--output", str(tmp_path / "t.csv")]) == 0
    assert list(pandas.read_csv(tmp_path / "t.csv")["network.bandwidth [bit/s]"]) == [
        1e9,
        31.62e9,
        1e12,
    ]


def test_what_all_cases_share_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    """The network, the array and the execution above the table, and none of it in a row."""
    asked = (
        *("sweep", "--networks", "gpt2:layers=2:seq=64", "--array", "h100-cluster"),
        *("--set", "nodes=1", "--batch", "16", "--vary", "micro_batch=1,2", "--parallel", "dp=8"),
        *("--planners", "all,axes"),
    )
    told = cli(capsys, *asked)
    title, head, *_ = told.splitlines()
    assert title.startswith(
        "gpt2:layers=2:seq=64, attention fused, h100-cluster, nodes=1, deployed"
    )
    assert "network" not in told.splitlines()[2]
    rows = [line.split("│")[1:5] for line in told.splitlines() if line.startswith("│")]
    cells = [[cell.strip() for cell in row] for row in rows]
    assert {row[0]: row[2] for row in cells} == {
        "data_parallel": "",
        "owt": "",
        "hypar": "",
        "accpar": "",
        "axes": "dp=8",
    }
    assert "micro_batch is not read by: data_parallel, owt, hypar, accpar" in told
    assert head.startswith("┏")


def test_micro_batches_that_no_planner_reads(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["sweep", "--networks", "lenet", "--planners", "owt", "--vary", "micro_batch=1,2"]
    assert main(asked) == 2
    assert "is for named axes" in capsys.readouterr().err


def test_the_table_marks_what_does_not_fit(capsys: pytest.CaptureFixture[str]) -> None:
    step = ("sweep", "--networks", "gpt2:layers=2:seq=128", "--planners", "axes")
    on = ("--array", "h100-cluster", "--set", "nodes=1", "--parallel", "dp=8", "--batch", "16")
    vary = ("--vary", "devices.0.hbm.capacity=80 GB,8 MB")
    rows = [
        line.split("│") for line in cli(capsys, *step, *on, *vary).splitlines() if "│ 8" in line
    ]
    assert [row[-2].strip() for row in rows] == ["yes", "no"]
    assert "fits" not in cli(capsys, *step, *on, "--vary", "devices.0.hbm.capacity=80 GB,81 GB")


def test_a_table_says_nothing_twice_and_fits_80_columns(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What is varied is no part of the execution too; what all share stands in the title."""
    step = ("sweep", "--networks", "lenet", "--planners", "axes", "--array", "tpu-v3-8")
    vary = ("--vary", "parallel=dp=8;dp=4,tp=2", "--vary", "batch=64,128")
    title, _, heads, *_ = cli(capsys, *step, *vary, "--metrics", "time,traffic").splitlines()
    assert title == "lenet, tpu-v3-8, axes, deployed, 4 cases"
    names = [name.strip() for name in heads.strip("┃").split("┃")]
    assert names == ["parallel", "batch", "step time", "speedup", "traffic [GB]"]


@pytest.mark.parametrize("values", ["batch=12288,16384", "network.bandwidth=1.00001e9,1.00002e9"])
def test_values_are_shown_as_they_are_asked(
    values: str, capsys: pytest.CaptureFixture[str]
) -> None:
    step = ("sweep", "--networks", "lenet", "--planners", "owt", "--jobs", "1")
    key, _, asked = values.partition("=")
    if key != "batch":
        asked = ",".join(f"{number} B/s" for number in asked.split(","))
    rows = [
        line.split("│")[1].strip()
        for line in cli(capsys, *step, "--vary", f"{key}={asked}").splitlines()
        if line.startswith("│")
    ]
    assert rows == asked.split(",")


def test_values_that_are_lists_are_parted_outside_their_brackets(
    capsys: pytest.CaptureFixture[str],
) -> None:
    step = ("sweep", "--networks", "lenet", "--planners", "owt", "--array", "tpu-v3-pod")
    count = ("--set", "devices.0.count=4", "--format", "json")
    shown = json.loads(cli(capsys, *step, *count, "--vary", "topology.shape=[4,4],[2,8]"))
    assert [row["topology.shape"] for row in shown] == ["[4,4]", "[2,8]"]
    spec: dict[str, Any] = {"set": {"devices.0.count": 4}, "jobs": 1}
    asked = {"topology.shape": [[4, 4], [2, 8]]}
    found = accelarray.sweep(asked, "lenet", "owt", "tpu-v3-pod", **spec)
    assert list(found.to_frame()["iteration_s"]) == [row["iteration_s"] for row in shown]


def test_nothing_that_varies_is_no_sweep() -> None:
    with pytest.raises(UsageError, match="vary is empty: name what varies"):
        accelarray.sweep({})


def test_a_picture_says_which_metrics_it_does_not_show(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    args = ["sweep", "--vary", "batch=64,128", "--networks", "lenet", "--array", "hypar-16"]
    args += ["--planners", "hypar", "--jobs", "1", "--plot", str(tmp_path / "x.png")]
    for metrics, told in (("time", ""), ("energy,traffic", "not energy_j and traffic_bytes")):
        assert main([*args, "--metrics", metrics]) == 0
        said = capsys.readouterr().err
        assert ("The picture shows speedups and times" in said) == bool(told)
        assert told in said

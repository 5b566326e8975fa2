"""The command line as scripts use it."""

import csv
import io
import json
import os
import pty
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from experiments.cli import main
from experiments.studies.case import Case
from experiments.studies.running.outputs import Outputs, run_case
from experiments.terms import duration

SMALL = ["--set", "devices.0.count=2", "--set", "devices.1.count=2"]
REFERENCE = Path(__file__).parent.parent / "data" / "accpar_reference"


def run(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert main(args) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def refuse(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    """Exit code 2, one message on stderr, nothing on stdout."""
    try:
        code: Any = main(args)
    except SystemExit as stop:  # argparse's own refusals
        code = stop.code
    captured = capsys.readouterr()
    assert code == 2
    assert captured.out == ""
    assert "Traceback" not in captured.err
    return captured.err


def test_speedup_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    out = json.loads(
        run(capsys, "speedup", *SMALL, "--networks", "lenet,alexnet", "--format", "json")
    )
    assert (out["batch"], out["published"]) == (512, {})
    assert [(r["network"], r["planner"]) for r in out["rows"]] == [
        (network, planner)
        for network in ("lenet", "alexnet")
        for planner in ("data_parallel", "owt", "hypar", "accpar")
    ]
    base = {r["network"]: r["iteration_s"] for r in out["rows"] if r["planner"] == "data_parallel"}
    for row in out["rows"]:
        assert row["speedup"] == base[row["network"]] / row["iteration_s"]
    owt = [row["speedup"] for row in out["rows"] if row["planner"] == "owt"]
    assert out["geomean"]["owt"] == pytest.approx((owt[0] * owt[1]) ** 0.5)
    assert 0 <= out["rows"][3]["slow_share"] <= 1
    assert out["rows"][3]["fast_alone_speedup"] > 0


def test_speedup_needs_no_baseline_among_its_planners(capsys: pytest.CaptureFixture[str]) -> None:
    args = ("speedup", *SMALL, "--networks", "lenet", "--planners", "owt", "--format", "json")
    (row,) = json.loads(run(capsys, *args))["rows"]
    assert row["planner"] == "owt"


@pytest.mark.core
def test_speedup_as_csv_and_table(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    args = ("speedup", *SMALL, "--networks", "lenet", "--batch", "64")
    rows = list(csv.DictReader(io.StringIO(run(capsys, *args, "--format", "csv"))))
    assert [row["planner"] for row in rows] == ["data_parallel", "owt", "hypar", "accpar"]
    table = run(capsys, *args)
    for row in rows[1:]:
        assert f"{float(row['speedup']):.3f}" in table
    assert "data_parallel [s]" in table
    assert "the paper's" not in table


def test_output_goes_to_a_file_whole(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    args = ("speedup", *SMALL, "--networks", "lenet", "--planners", "owt", "--format", "json")
    assert run(capsys, *args, "--output", str(target)) == ""
    assert json.loads(target.read_text())["rows"]
    assert list(tmp_path.iterdir()) == [target]
    assert target.stat().st_mode & 0o777 == 0o666 & ~current_umask()


def test_output_follows_links_and_feeds_pipes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    real, link, fifo = tmp_path / "real", tmp_path / "link", tmp_path / "fifo"
    link.symlink_to(real)
    run(capsys, "list", "devices", "--output", str(link))
    assert link.is_symlink()
    assert "tpu-v3" in real.read_text()
    os.mkfifo(fifo)
    reader = subprocess.Popen(["cat", str(fifo)], stdout=subprocess.PIPE)  # noqa: S607
    run(capsys, "list", "devices", "--output", str(fifo))
    assert b"tpu-v3" in reader.communicate()[0]
    assert fifo.is_fifo()


def test_an_interrupted_study_replaces_no_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0

    def interrupting(case: Case) -> Outputs:
        nonlocal calls
        calls += 1
        if calls > 7:
            raise KeyboardInterrupt
        return run_case(case)

    monkeypatch.setattr("experiments.studies.running.runner.run_case", interrupting)
    target = tmp_path / "out.json"
    target.write_text("before")
    args = ["speedup", *SMALL, "--jobs", "1", "--format", "json", "--output", str(target)]
    assert main(args) == 130
    captured = capsys.readouterr()
    assert "interrupted after 1 of 9 networks" in captured.err
    assert target.read_text() == "before"
    shown = json.loads(captured.out)
    assert shown["complete"] is False
    assert {row["network"] for row in shown["rows"]} == {"lenet"}
    calls = 0
    assert (
        main(["speedup", "--levels", "1-9", "--networks", "lenet", "--output", str(target)]) == 130
    )
    assert "interrupted after 1 of 9 sizes" in capsys.readouterr().err
    calls = 7
    assert main(["speedup", *SMALL]) == 130
    assert capsys.readouterr().err == "accelarray: interrupted\n"


def test_a_full_device_is_one_message() -> None:
    with Path("/dev/full").open("wb") as full:
        ran = subprocess.run(
            command("list", "planners"), stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert ran.returncode == 2
    assert "standard output cannot be written: No space left" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_deep_plans_are_shown_in_pieces(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "plan", "vgg19", "--planner", "accpar", "--levels", "16")
    assert "\u2026" not in out
    assert all(out.count(f" level {level} ") == 1 for level in range(16))


def current_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_bars_are_drawn(capsys: pytest.CaptureFixture[str], tmp_path: Path, ending: str) -> None:
    target = tmp_path / f"bars.{ending}"
    run(capsys, "speedup", *SMALL, "--networks", "lenet", "--plot", str(target))
    magic = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[ending]
    assert target.read_bytes().startswith(magic)


def test_plan_of_halves_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    args = ("plan", "alexnet", "--planner", "hypar", "--levels", "3", "--objective", "traffic")
    out = json.loads(run(capsys, *args, "--format", "json"))
    assert (out["network"], out["planner"], out["batch"]) == ("alexnet", "hypar", 512)
    assert out["layers"] == [f"conv{i}" for i in range(1, 6)] + ["fc6", "fc7", "fc8"]
    assert len(out["levels"]) == len(out["cost"]) == 3
    assert {kind for level in out["levels"] for kind in level} == {"I", "II"}
    assert all(isinstance(cost, int) for cost in out["cost"])


def test_plan_of_layer_files_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """A list for several files, in the order given; the authors' program's plans."""
    cases = {case["name"]: case for case in json.loads((REFERENCE / "plans.json").read_text())}
    names = ["random_48", "random_12", "Resnet18_chain"]
    files = [str(REFERENCE / f"{name}.txt") for name in names]
    args = ("--planner", "accpar", "--levels", "7", "--objective", "traffic", "--format", "json")
    out = json.loads(run(capsys, "plan", "--layers", *files, *args))
    numerals = ("I", "II", "III")
    for name, plan in zip(names, out, strict=True):
        assert plan["network"] == name
        wanted = [[numerals[kind] for kind in level] for level in cases[name]["plans"]["accpar"]]
        assert plan["levels"] == wanted
        assert plan["cost"] == cases[name]["level_cost_elements"]["accpar"]
    single = json.loads(run(capsys, "plan", "--layers", files[0], *args))
    assert single == out[0]
    changed = json.loads(
        run(capsys, "plan", "--layers", files[0], *args, "--set", "transform=eager")
    )
    assert changed["network"] == f"{names[0]}, eager"


def test_plan_of_a_mixed_array_is_a_tree(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    args = ("plan", "resnet18", "--planner", "accpar", "--array", "accpar-mixed")
    out = json.loads(run(capsys, *args, "--format", "json"))
    assert "levels" not in out
    tree = out["tree"]
    assert len(tree["types"]) == len(tree["shares"]) == len(out["layers"])
    assert "layer1.0.add" in out["layers"]
    assert [len(half["halves"]) for half in tree["halves"]] == [1, 1]
    table = run(capsys, *args)
    assert "128 accpar-tpu-v2 | 128 accpar-tpu-v3" in table
    assert table.count("in halves") == 2
    assert table.count("layer4.1.conv2 ") == 3


def test_plan_of_one_accelerator(capsys: pytest.CaptureFixture[str]) -> None:
    args = ("plan", "lenet", "--planner", "owt", "--levels", "0")
    assert json.loads(run(capsys, *args, "--format", "json"))["levels"] == []
    assert "nothing is split" in run(capsys, *args)


def test_simulate(capsys: pytest.CaptureFixture[str]) -> None:
    args = ("simulate", "lenet", "--planner", "hypar", *SMALL)
    out = json.loads(run(capsys, *args, "--format", "json"))
    assert (out["devices"], out["cores"]) == (4, 32)
    assert out["iteration_s"] > 0
    every = json.loads(run(capsys, *args, "--unfolded", "--format", "json"))
    for key in ("iteration_s", "operations", "phases", "computing", "communicating", "waiting"):
        assert every[key] == out[key]
    assert every["operations"] > every["events"] > out["events"] > 0
    assert out["wall_s"] > 0
    shares = (out["computing"], out["communicating"], out["waiting"])
    assert sum(shares) == pytest.approx(1.0)
    assert duration(out["iteration_s"]) in run(capsys, *args)


def test_simulate_reads_layer_files(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(REFERENCE / "random_48.txt")
    out = json.loads(run(capsys, "simulate", path, "--planner", "owt", *SMALL, "--format", "json"))
    assert out["network"] == "random_48"


def test_list_and_show(capsys: pytest.CaptureFixture[str]) -> None:
    for kind, name in {
        "networks": "resnet50",
        "planners": "hypar",
        "arrays": "accpar-mixed",
        "devices": "tpu-v3",
    }.items():
        assert name in run(capsys, "list", kind)
        assert name in [
            r["name"] for r in json.loads(run(capsys, "list", kind, "--format", "json"))
        ]
    assert "25,502,912 weights" in run(capsys, "show", "resnet50")
    assert "finish together" in run(capsys, "show", "accpar")
    shown = json.loads(
        run(
            capsys,
            "show",
            "accpar-mixed",
            "--set",
            "network.bandwidth=1 Gbit/s",
            "--format",
            "json",
        )
    )
    settings = {row["key"]: row for row in shown["settings"]}
    assert settings["devices.1.network.bandwidth"]["value"] == "1 Gbit/s"
    assert settings["devices.1.network.bandwidth"]["source"] == "command line"
    device = json.loads(run(capsys, "show", "tpu-v2", "--format", "json"))
    assert device["kind"] == "device"


def test_a_users_array_works_wherever_a_name_does(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('kind = "array"\n[[devices]]\ndevice = "tpu-v3"\ncount = 2\n')
    args = ("simulate", "lenet", "--planner", "owt", "--array", str(path), "--format", "json")
    assert json.loads(run(capsys, *args))["array"] == "mine"
    assert "123 TFLOP/s" in run(capsys, "show", str(path))


def test_names_from_files_are_shown_as_text(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "odd.txt"
    path.write_text("num_layers 1\n[red]:smile:[/red] FC\nin_ch 3\nout_ch 4\n")
    out = run(capsys, "plan", "--layers", str(path), "--planner", "owt", "--levels", "1")
    assert "[red]:smile:[/red]" in out


REFUSED = (
    (Path(__file__).parent.parent / "golden" / "refusals.txt")
    .read_text(encoding="utf-8")
    .splitlines()
)
"""By turns a command's words and what the first line says of it."""
FILES = {
    "graph": "0 1\n2 3\n",
    "trace": "1 1 1 1 1 1 1 1\n" * 2,
    "bad.toml": 'execution.buckett = "1 MiB"\n',
    "broken.toml": "x = \n",
    "many.toml": 'batch = "many"\n',
    "words.txt": "hello\n",
    "own.py": 'def fails(network, array, batch, objective=None):\n    raise KeyError("oops")\n',
}


@pytest.mark.parametrize(("line", "words"), list(zip(REFUSED[::2], REFUSED[1::2], strict=True)))
def test_users_errors(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    line: str,
    words: str,
) -> None:
    """Nothing is written; some broken files lie in the folder for those that name them."""
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        Path(name).write_text(text, encoding="utf-8")
    Path("folder").mkdir()
    said = refuse(capsys, *shlex.split(line.removeprefix("$")))
    first, *further = said.splitlines()
    assert first.startswith("accelarray: error: ")
    assert words in first
    assert not any(one.startswith("usage:") for one in further)
    assert {file.name for file in tmp_path.iterdir()} - {"__pycache__"} == {*FILES, "folder"}


@pytest.mark.parametrize(
    ("name", "words"),
    [("a\0b", "cannot be written"), ("x" * 300, "cannot be written: File name too long")],
)
def test_names_no_file_can_have(capsys: pytest.CaptureFixture[str], name: str, words: str) -> None:
    assert words in refuse(capsys, "speedup", "--output", name)


def test_a_broken_layer_file_names_its_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "bad.txt"
    path.write_text("num_layers 1\nfc FC\nin_ch three\nout_ch 4\n")
    args = ("plan", "--layers", str(path), "--planner", "owt", "--levels", "1")
    assert f"{path}:3: in_ch must be a whole number" in refuse(capsys, *args)


def test_a_bug_is_not_dressed_up_as_the_users_error(monkeypatch: pytest.MonkeyPatch) -> None:
    import planners

    def broken(*_: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setitem(planners.PLANNERS, "owt", broken)
    with pytest.raises(ZeroDivisionError):
        main(["simulate", "lenet", "--planner", "owt"])


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "experiments.cli", *args]


def test_a_closed_pipe_is_no_error() -> None:
    process = subprocess.Popen(
        command("show", "resnet50"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.wait()
    process.stderr.close()


def test_progress_is_shown_on_a_terminal_only() -> None:
    args = command("speedup", *SMALL, "--networks", "lenet", "--format", "csv")
    ours, theirs = pty.openpty()
    with subprocess.Popen(args, stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        try:
            while part := os.read(ours, 4096):
                shown += part
        except OSError:  # the terminal's end on Linux
            pass
        assert process.stdout is not None
        rows = process.stdout.read()
    os.close(ours)
    assert b"4/4" in shown
    assert rows.startswith(b"network,planner")
    piped = subprocess.run(args, check=True, capture_output=True)
    assert piped.stderr == b""


def test_version_and_module(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out.startswith("accelarray 0.")


def test_a_value_of_all_devices_is_refused_once(capsys: pytest.CaptureFixture[str]) -> None:
    said = refuse(capsys, "simulate", "lenet", "--planner", "owt", "--price", "abc")
    assert said == "accelarray: error: --price abc: 'abc': must be a number from 0 to 1e+06\n"


def test_an_option_that_is_not_varied_is_said_not_to_be(capsys: pytest.CaptureFixture[str]) -> None:
    """The command has it: it was said not to take it."""
    words = (
        "sweep",
        "--networks",
        "lenet",
        "--planners",
        "owt",
        "--vary",
        "attention=fused,unfused",
    )
    said = refuse(capsys, *words)
    assert "the option attention is not one of those that can be varied" in said


@pytest.mark.parametrize(("command", "told"), [("simulate", False), ("timeline", True)])
def test_a_price_without_a_cost_is_told(
    command: str, told: bool, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = ("--output", str(tmp_path / "out.json")) if told else ()
    step = ("alexnet", "--planner", "accpar", "--array", "tpu-v3-8", "--price", "2")
    assert main([command, *step, *out]) == 0
    assert ("--price has no effect here" in capsys.readouterr().err) == told

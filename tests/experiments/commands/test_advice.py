"""Messages that say what to do: names, units, files, schedules and planners of one's own."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from experiments.cli import main
from hardware import catalog_names, load_array, load_stack, parse_quantity

GPT2 = ("simulate", "gpt2", "--batch", "64", "--array", "h100-cluster")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("show", "h100"), "did you mean h100-sxm, h100-pcie, "),
        (("simulate", "llama3", "--planner", "owt"), "llama3-8b"),
        (("simulate", "absent.onnx", "--planner", "owt"), "absent.onnx: cannot be read: No such"),
        (
            (*GPT2, "--parallel", "pp=4", "--micro-batch", "1", "--schedule", "interleaved"),
            "take --parallel pp=4,vp=2",
        ),
    ],
)
def test_mistakes_name_their_remedy(
    capsys: pytest.CaptureFixture[str], args: tuple[str, ...], said: str
) -> None:
    assert main(args) == 2
    assert said in capsys.readouterr().err


def test_interleaved_with_two_stages_a_place_runs(capsys: pytest.CaptureFixture[str]) -> None:
    axes = ("--parallel", "pp=4,vp=2", "--micro-batch", "1", "--schedule", "interleaved")
    assert main((*GPT2, *axes)) == 0
    assert capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("400 Gbps", "B/s", 50e9),
        ("400 Gb/s", "B/s", 50e9),
        ("50 GBps", "B/s", 50e9),
        ("312 TFLOPS", "FLOP/s", 312e12),
    ],
)
def test_common_spellings_of_units(text: str, unit: str, value: float) -> None:
    assert parse_quantity(text, unit) == value


def test_a_planner_that_raises_is_named_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = "def raises(network, array, batch, objective):\n    return {}['absent']\n"
    (tmp_path / "my_raising_planner.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    assert main(["simulate", "lenet", "--planner", "my_raising_planner:raises"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "planner 'raises' failed: KeyError: 'absent'" in line
    assert "my_raising_planner.py, line 2: return {}['absent']" in line


def answer(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main([*args, "--format", "json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


LLAMA = "llama3-8b:layers=2:seq=512"
NODE = ("--array", "h100-cluster", "--set", "nodes=1", "--batch", "64")


def test_a_gpu_array_runs_its_usual_stack(capsys: pytest.CaptureFixture[str]) -> None:
    args = ("simulate", "gpt2:layers=2", "--parallel", "tp=1", *NODE)
    usual, named = answer(capsys, *args), answer(capsys, *args, "--stack", "megatron-2025")
    bare = answer(capsys, *args, "--stack", "none", "--attention", "fused")
    assert (usual["stack"], bare["stack"]) == ("megatron-2025", None)
    assert usual["iteration_s"] == named["iteration_s"] > bare["iteration_s"]
    assert usual["error_band"] is not None
    assert bare["warnings"] == []


def test_arrays_of_the_catalog_name_a_stack_for_their_chips() -> None:
    """GPUs and TPUs from v4 on, where one stack knows all their chips."""
    later = ("tpu-v4", "tpu-v5", "tpu-v6", "tpu-v7")
    users = ("a100", "b200", "b300", "gb", "h100", "h200", "v100", "p100", "k80", *later)
    stacks = {name: {s.key for s in load_stack(name)[1]} for name in catalog_names("stack")}
    for name in catalog_names("array"):
        array = load_array(name, usual=True)
        chips = [device.name for device, _ in array.group.kinds]
        needed = {f"chips.{chip}.products" for chip in chips}
        known = [stack for stack, keys in stacks.items() if needed <= keys]
        if chips[0].startswith(users) and known:
            assert array.stack is not None, name
            assert array.stack.name in known, name
        else:
            assert array.stack is None, name


@pytest.mark.parametrize(
    ("network", "options", "fused"),
    [
        (LLAMA, ("--array", "tpu-v3-8"), True),
        (LLAMA, ("--array", "dgx-a100"), True),
        ("gpt2:layers=2", ("--array", "tpu-v3-8"), False),
        ("gpt2:layers=2", NODE, True),
        (LLAMA, (*NODE, "--stack", "megatron-2021"), False),
        (LLAMA, ("--array", "accpar-homogeneous"), False),
        (LLAMA, (*NODE, "--attention", "unfused"), False),
    ],
)
def test_attention_is_fused_where_it_is_usual(
    network: str, options: tuple[str, ...], fused: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ("simulate", network, "--planner", "data_parallel", "--batch", "64", *options)
    assert answer(capsys, *args)["network"].endswith("attention fused") == fused


def test_a_stack_of_2023_fuses_attention_unless_it_says_otherwise(tmp_path: Path) -> None:
    def attention(year: int, habits: str = "") -> str | None:
        path = tmp_path / "mine.toml"
        path.write_text(f'kind = "stack"\nyear = {year}\n[habits]\n{habits}\n')
        return load_stack(str(path))[0].attention

    assert [attention(2022), attention(2023)] == [None, "fused"]
    assert attention(2023, 'attention = "unfused"') == "unfused"


FULL = (LLAMA, *NODE, "--set", 'devices.0.hbm.capacity="6 GiB"', "--optimizer", "adam")


def test_nothing_is_compared_with_what_does_not_fit(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "explain", *FULL, "--parallel", "tp=8", "--micro-batch", "1")
    assert found["fits"]
    assert found["data_parallel_s"] is None
    (said,) = [note for note in found["notes"] if note.startswith("Data parallelism")]
    assert re.fullmatch(r"Data parallelism does not fit: \d+\.\d\d GiB of 6\.00 GiB\.", said)
    assert not any("slower than data parallelism" in note for note in found["notes"])
    assert main(["compare", *FULL, "--planners", "data_parallel,owt"]) == 0
    assert "data_parallel does not fit: " in capsys.readouterr().out


def test_speedups_and_reports_say_what_does_not_fit(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    study = (*FULL[1:], "--networks", LLAMA, "--planners", "data_parallel,owt")
    assert main(["speedup", *study]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "* data_parallel does not fit in memory for llama3-8b:layers=2:seq=512" in out
    assert re.search(r"│ \d\.\d{3}\* │", out)
    assert "slower than data parallelism" not in out
    assert main(["report", *study, "--output", str(page)]) == 0
    text = " ".join(page.read_text(encoding="utf-8").split())
    assert "(does not fit in memory: data_parallel for llama3-8b:layers=2:seq=512" in text
    assert re.search(r"data_parallel does not fit: [\d.]+ GiB of 6\.00 GiB", text)
    roomy = [word if word != FULL[-3] else 'devices.0.hbm.capacity="80 GiB"' for word in study]
    assert main(["speedup", *roomy]) == 0
    assert "*" not in capsys.readouterr().out


def test_what_frees_most_is_named_with_its_cost(capsys: pytest.CaptureFixture[str]) -> None:
    args = ("simulate", *FULL, "--parallel", "tp=8", "--attention", "unfused")
    over = answer(capsys, *args)
    assert not over["fits"]
    advice = [said for said in over["warnings"] if " frees " in said]
    assert any(
        re.search(r"^--micro-batch 1 frees [\d.]+ GiB; then the step fits", a) for a in advice
    )
    assert re.search(r"it takes [\d.e+]+ ms (longer|less)\.$", advice[0])
    assert main([*args]) == 0
    assert "A micro-batch is the whole share of a replica, 64 samples" in capsys.readouterr().out
    explained = answer(capsys, "explain", *args[1:])
    tried = {one["what"]: one for one in explained["frees"]}
    assert {"--attention fused", "--micro-batch 1", "--zero 1"} <= tried.keys()
    assert tried["--attention fused"]["frees_bytes"] > 0
    first = explained["frees"][0]
    assert first["seconds"] is not None
    assert f"{first['what']} frees" in advice[0]
    assert main([*args, "--strict-memory"]) == 2
    refused = capsys.readouterr()
    assert not refused.out
    assert re.search(rf"{first['what']} frees [\d.]+ GiB; then the step fits", refused.err)


def test_later_networks_name_their_array(capsys: pytest.CaptureFixture[str]) -> None:
    for args in (
        ("simulate", "llama3-70b", "--parallel", "tp=8"),
        ("speedup", "--networks", "vgg16,mixtral-8x7b"),
    ):
        assert main(args) == 2
        said = capsys.readouterr().err
        assert "name the array that trains it, as --array h100-cluster" in said
    assert main(["simulate", "lenet", "--planner", "owt"]) == 0
    assert main(["plan", "gpt2:layers=1", "--planner", "owt"]) == 0


@pytest.mark.parametrize(("batch", "said"), [("64", "8 samples"), ("63", "7 or 8 samples")])
def test_replicas_share_a_batch_as_evenly_as_it_goes(
    batch: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--array", "h100-cluster", "--set", "nodes=1", "--parallel", "dp=8")
    assert main(["simulate", "gpt2:layers=1", *words, "--batch", batch]) == 0
    assert f"the whole share of a replica, {said} (smaller" in capsys.readouterr().out

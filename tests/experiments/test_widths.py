"""Every table fits eighty columns, and a wider terminal gets wider ones."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.cli import main
from experiments.output import fitted, table, text_of, width

BOX = tuple("│┃┏└┌├┡")
STEP = ["--planner", "accpar"]
COMMANDS = [
    ["list", "networks"],
    ["list", "arrays"],
    ["list", "devices"],
    ["list", "planners"],
    ["show", "tpu-v3"],
    ["show", "accpar-mixed"],
    ["show", "resnet18"],
    ["show", "gpt2"],
    ["show", "inception-v3"],
    ["speedup", "--networks", "lenet", "--metrics", "time,traffic"],
    ["speedup", "--networks", "lenet", "--levels", "2-3"],
    ["simulate", "alexnet", *STEP, "--array", "tpu-v3-8"],
    ["explain", "alexnet", *STEP, "--set", "devices.0.hbm.bandwidth=1 TB/s"],
    ["explain", "lenet", *STEP, "--array", "tpu-mixed"],
    ["compare", "alexnet", "--planners", "owt,accpar"],
    ["plan", "lenet", *STEP, "--array", "tpu-v3-pod"],
    ["plan", "vgg11", *STEP],
    ["sweep", "--networks", "lenet", "--vary", "batch=32,64", "--vary", "array=tpu-v3-8,ring-8"],
    ["collective", "all-reduce", "--bytes", "1 MB", "--array", "tpu-mixed"],
    ["reproduce", "hypar", "--figures", "6"],
]


def widest(text: str) -> int:
    return max(len(line) for line in text.splitlines() if line.startswith(BOX))


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_tables_fit(
    command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert main(command) == 0
    assert widest(capsys.readouterr().out) <= 80


def test_a_wide_terminal_is_used(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "150")
    assert main(["show", "tpu-v3"]) == 0
    assert 80 < widest(capsys.readouterr().out) <= 150
    monkeypatch.setenv("COLUMNS", "10")
    assert width() == 80


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(st.text("ab ", min_size=1, max_size=60), st.integers(0, 10**12 - 1)), min_size=1
    ),
    st.integers(1, 4),
)
def test_numbers_stay_whole_and_nothing_is_lost(rows: list[tuple[str, int]], many: int) -> None:
    made = [{"words": text, **dict.fromkeys("wxyz"[:many], n)} for text, n in rows]
    text = text_of(table("t", made))
    assert widest(text) <= 80
    for words, number in rows:
        assert text.count(f" {number:,} ") >= many
        assert text.count("a") >= words.count("a")


def test_columns_are_dropped_by_priority_and_that_is_said() -> None:
    rows = [{"name": "n" * 30, "first": "f" * 30, "second": "s" * 30, "third": "t" * 10}]
    text = text_of(*fitted("t", rows, ("second", "first")))
    assert "second" not in text.partition("Not shown")[0]
    assert "first" in text.partition("Not shown")[0]
    assert text.endswith("Not shown here: second (a wider terminal and --format json have all).\n")
    assert "Not shown" not in text_of(*fitted("t", [{"name": "n"}], ("name",)))

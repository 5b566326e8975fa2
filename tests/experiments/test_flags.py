"""Flags: few in any help, each in the table of options, and help that every terminal can show."""

import argparse
import re

import pytest

from experiments.cli import COMMANDS, DAILY, PAPERS, main, parser_of
from experiments.commands.arguments import Parser
from experiments.encodings import HANDLER
from experiments.options import ALIASES, OPTIONS, option_rows
from simulator.lowering.schedules.registry import SCHEDULES

MOST_SHOWN, MOST_DISTINCT, MOST_DAILY = 20, 45, 10
TOPS = (["--help"], ["papers"], ["papers", "--help"])


def commands() -> dict[str, Parser]:
    return {name: parser_of(name) for name in COMMANDS}


def helped(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as left:
        main(words)
    assert left.value.code == 0
    return capsys.readouterr().out


def shown(text: str) -> set[str]:
    """The flags that begin a line of a help."""
    return {flag for line in re.findall(r"(?m)^  (-.*)", text) for flag in FLAG.findall(line)}


FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*(?=[ ,\n]|$)")


def test_few_flags_in_a_help_and_few_in_all(capsys: pytest.CaptureFixture[str]) -> None:
    distinct = shown(helped(capsys, "--help"))
    assert distinct == {"--help", "--version"}
    for name in COMMANDS:
        text = helped(capsys, name, "--help")
        listed = {one for one in commands()[name]._actions if one.help != argparse.SUPPRESS}
        flags = {one.option_strings[-1] for one in listed if one.option_strings}
        assert flags <= shown(text)
        assert len(flags) <= MOST_SHOWN, name
        distinct |= flags
    assert len(distinct) <= MOST_DISTINCT, sorted(distinct)


def test_ten_commands_of_daily_use(capsys: pytest.CaptureFixture[str]) -> None:
    listed = re.findall(r"(?m)^  (\w+)  +\w", helped(capsys, "--help"))
    assert listed == [name for group in DAILY.values() for name in group]
    assert len(listed) == MOST_DAILY
    others = re.findall(r"(?m)^  (\w+)  +\w", helped(capsys, "papers"))
    assert others == list(PAPERS)
    assert "accelarray papers" in helped(capsys, "--help").splitlines()[-1]


@pytest.mark.parametrize("name", PAPERS)
def test_other_commands_are_under_papers_and_by_themselves(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = helped(capsys, "papers", name, "--help")
    assert text == helped(capsys, name, "--help")
    assert text.startswith(f"usage: accelarray papers {name} ")


@pytest.mark.parametrize("words", [*TOPS, *([name, "--help"] for name in COMMANDS)], ids=" ".join)
def test_help_fits_every_terminal(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = helped(capsys, *words)
    assert max(map(len, text.splitlines())) <= 80
    for encoding in ("ascii", "latin-1", "cp1252"):
        assert "?" not in text.encode(encoding, HANDLER).decode(encoding).replace("and why?", "")


def test_every_flag_is_in_the_table() -> None:
    for name, one in commands().items():
        for action in one._actions:
            for flag in action.option_strings:
                known = flag in ("-h", "--help", "--study")
                assert known or flag[2:].replace("-", "_") in ALIASES, (name, flag)
        for key, flag in one.keys.items():
            assert key == "model.name" or f"--{flag}" in one._option_string_actions
        spoken = [a for a in one._actions if a.help not in (None, argparse.SUPPRESS)]
        assert all(a.metavar or a.nargs == 0 for a in spoken if a.option_strings), name


def test_the_table_says_what_there_is() -> None:
    assert all(name in OPTIONS["pipeline.schedule"].about for name in SCHEDULES)
    for row in option_rows():
        assert row["meaning"]
        assert row["key"] == row["key"].lower()


def test_list_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "options"]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    for key in OPTIONS.keys() - {"set", "config", "vary"}:
        assert f"\n  {key}   (" in text
    assert "execution.bucket   (--bucket BYTES)\n      default: as the plan says, else 25" in text
    assert "; unit: bytes\n" in text
    assert main(["show", "options"]) == 0
    assert capsys.readouterr().out == text


@pytest.mark.parametrize(
    ("typed", "ours"),
    [
        ("--tp 8", "--tp 8: write --parallel tp=8"),
        ("--tp=8 --pp 4 --sequence-parallel", "write --parallel tp=8,pp=4,sp"),
        ("--dp 2 --cp 4 --ep 8", "--dp 2 --cp 4 --ep 8: write --parallel dp=2,cp=4,ep=8"),
        ("--mbs 1", "--mbs 1: write --micro-batch 1"),
        ("--gbs 64 --tp 2", "write --parallel tp=2 and --batch 64"),
        ("--bs 64", "--bs 64: write --batch 64"),
        ("--tensor-model-parallel-size 8", "write --parallel tp=8"),
        ("--pipeline-model-parallel-size 4", "write --parallel pp=4"),
        ("--micro-batch-size 2", "write --micro-batch 2"),
        ("--global-batch-size 2", "write --batch 2"),
        ("--context-parallel-size 2", "write --parallel cp=2"),
        ("--expert-model-parallel-size 2", "write --parallel ep=2"),
        ("--num-layers-per-virtual-pipeline-stage 2", "write --parallel with vp=V"),
        ("--recompute-granularity selective", "write --recompute selective"),
        ("--use-distributed-optimizer", "--use-distributed-optimizer: write --zero 1"),
        ("--bf16", "--bf16: write --precision bf16"),
        ("--fp8-format hybrid", "write --precision fp8"),
        ("--parallelism.tensor_parallel_degree 8", "write --parallel tp=8"),
        ("--parallelism.data_parallel_shard_degree=8", "write --zero 3 and --parallel with dp=8"),
        ("--training.local_batch_size 4", "write --batch with 4 x dp samples"),
        ("--activation_checkpoint.mode full", "write --recompute full"),
        ("--seq-length 4096", "write the sequence length with the network, as llama3-8b:seq=4096"),
    ],
)
def test_flags_of_other_tools_are_understood(
    typed: str, ours: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "gpt2", *typed.split()]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"accelarray: error: {typed.split()[0].partition('=')[0]}")
    assert ours in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("typed", "ours"),
    [
        ("--set tp=2", "--set tp=2: write --parallel with tp=2"),
        ("--set sp=1", "--set sp=1: write --parallel with sp"),
        ("--set seq=128", "--set seq=128: write the sequence length with the network, as"),
        ("--set num_nodes=3", "--set num_nodes=3: write --set nodes=3"),
        ("--vary dp=2,4", 'write --vary "parallel=dp=8;dp=4,tp=2", with all axes in each value'),
        ("--vary micro_batch_size=1,2", "write --vary micro-batch=1"),
        ("--vary num_nodes=1,2", "write --vary nodes=1"),
        ("--set size=3", "size: unknown key; one of description"),
        ("--set bf16=false", "bf16: unknown key; one of description"),
        ("--set model=gpt3", "model: unknown key; did you mean"),
    ],
)
def test_keys_that_are_flags_of_other_tools(
    typed: str, ours: str, capsys: pytest.CaptureFixture[str]
) -> None:
    usual = ["--array", "h100-cluster", "--parallel", "dp=32"]
    command = ["sweep", "--networks", "gpt2"] if "--vary" in typed else ["simulate", "gpt2"]
    assert main([*command, *usual, *typed.split()]) == 2
    assert ours in capsys.readouterr().err


def test_no_flag_of_ours_is_taken_for_another_tools() -> None:
    from experiments.hints import remedy

    for one in commands().values():
        assert remedy([*one._option_string_actions], one._option_string_actions) is None
    assert remedy(["--", "--tp"], ()) is None

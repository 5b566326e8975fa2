"""Every ``--help`` of a command ends with two examples that work."""

import shlex
import shutil
from pathlib import Path

import pytest

from experiments.cli import COMMANDS, main, parser_of
from experiments.commands.examples import EXAMPLES
from experiments.studies.running.store import Store
from tests.experiments.commands.test_plan_profile import BERT, VGG
from tests.experiments.measured.some_rows import SMALL, table

LONG = {
    "papers validate",
    "papers reproduce accpar --plot figures",
    "papers validate --set roofline.pad_matrix_unit=128 --output errors.json",
    "papers report --output report.html",
    "fit llama3-70b --array h100-cluster --set nodes=128 --precision bf16 --batch 1024 "
    "--attention fused --plot fit.png",
}
"""Seconds and more; the commands they are of run elsewhere in the tests."""
LLAMA = (
    '{"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "vocab_size": 128256, '
    '"num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336}'
)
LINES = [line for lines in EXAMPLES.values() for line in lines]


@pytest.mark.parametrize("command", EXAMPLES)
def test_help_ends_with_two_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([command, "--help"])
    assert left.value.code == 0
    text = capsys.readouterr().out.partition("\nexamples:\n")[2]
    end = text.replace(" \\\n     ", "").splitlines()
    assert end == [f"  accelarray {line}" for line in EXAMPLES[command]]
    assert len(set(end)) == 2


def test_every_command_has_examples_of_its_own() -> None:
    assert EXAMPLES.keys() == COMMANDS.keys()
    for command, lines in EXAMPLES.items():
        for line in lines:
            word, *words = shlex.split(line.removeprefix("papers "))
            assert word == command
            parser_of(word).parse_args(words)


@pytest.mark.parametrize("line", sorted({*LINES} - LONG))
def test_examples_run(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Store("results.db") as store:
        store.put("k", {"network": "lenet", "batch": 8}, {"iteration_s": 0.5})
    Path("measured.csv").write_text(table(SMALL))
    Path("pretrain.sh").write_text("torchrun pretrain_gpt.py --num-layers 2 --global-batch-size 8")
    Path("Llama-3.1-8B").mkdir()
    Path("Llama-3.1-8B", "config.json").write_text(LLAMA)
    shutil.copy(VGG, "graph.txt")
    shutil.copy(BERT, "graph.json")
    args = shlex.split(line)
    assert main(args) == 0
    files = {args[i + 1] for i, word in enumerate(args) if word in ("--output", "--plot")}
    assert {path.name for path in tmp_path.iterdir()} == {
        "results.db",
        "measured.csv",
        "pretrain.sh",
        "Llama-3.1-8B",
        "graph.txt",
        "graph.json",
        *files,
    }

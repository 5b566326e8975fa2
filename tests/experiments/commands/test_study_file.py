"""``--config FILE.toml``: as if its flags had been typed, those beside it winning."""

import argparse
import shlex
from pathlib import Path

import pytest

from experiments.cli import main, parse
from experiments.output import UsageError

STUDY = """
array = "tpu-v3-8"
networks = ["lenet", "alexnet"]
planners = "owt,accpar"
batch = 64
execution = "deployed"
strict-memory = true
bucket = 1e6
set = ["devices.0.count=2"]
[vary]
overlap = ["full", "none"]
devices.0.hbm.bandwidth = ["450 GB/s", "900 GB/s"]
"""
TYPED = (
    "sweep --array tpu-v3-8 --networks lenet,alexnet --planners owt,accpar --batch 64 "
    "--execution deployed --strict-memory --bucket 1000000.0 --set devices.0.count=2 "
    '--vary overlap=full,none --vary "devices.0.hbm.bandwidth=450 GB/s,900 GB/s"'
)


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("s.toml").write_text(STUDY)
    return Path("s.toml")


def parsed(line: str) -> dict[str, object]:
    found = vars(parse(shlex.split(line)))
    found.pop("config")
    return found


@pytest.mark.usefixtures("study")
@pytest.mark.parametrize(
    "flag", ["--config s.toml", "--config=s.toml", "--study s.toml", "--study=s.toml"]
)
def test_a_file_is_as_good_as_flags(flag: str) -> None:
    assert parsed(f"sweep {flag}") == parsed(TYPED)


@pytest.mark.usefixtures("study")
@pytest.mark.parametrize(
    "beside",
    [
        "--batch 512",
        "--networks vgg11 --planners all",
        "--bucket 0 --execution published",
        "--set devices.0.count=4",
        "--set devices.0.hbm.capacity=1GiB",
        "--vary overlap=none",
        "--vary batch=8,16",
        "--format json",
    ],
)
def test_a_flag_beside_it_wins(beside: str) -> None:
    """The default's value too; KEY=VALUE flags win key by key; before the file or after it."""
    after = parsed(f"sweep --study s.toml {beside}")
    assert after == parsed(f"sweep {beside} --study s.toml")
    name, value = beside.split()[:2]
    key = value.partition("=")[0]
    words = shlex.split(TYPED)
    pairs = [(words[i], words[i + 1]) for i in range(len(words) - 1)]
    replaced = [p for p in pairs if p[0] in ("--set", "--vary") and p[1].startswith(f"{key}=")]
    for flag, old in replaced if name in ("--set", "--vary") else []:
        at = words.index(old)
        assert words[at - 1] == flag
        del words[at - 1 : at + 1]
    assert after == parsed(shlex.join([*words, *beside.split()]))


def test_every_command_with_a_study_takes_what_it_needs(study: Path) -> None:
    study.write_text('networks = ["lenet"]\noutput = "page.html"\n[set]\na.b = [2, 2]\nc = true')
    args = parse(["report", "--study", "s.toml"])
    assert (args.networks, args.output, args.set) == (
        "lenet",
        "page.html",
        ["a.b=[2, 2]", "c=true"],
    )
    study.write_text('networks = ["lenet"]\nunfolded = true\nformat = "csv"')
    args = parse(["speedup", "--study", "s.toml"])
    assert (args.unfolded, args.format) == (True, "csv")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('netwroks = "a"', "netwroks: no such option; did you mean networks?"),
        (
            "execution.buckett = 1",
            "execution.buckett: no such option; did you mean execution.bucket?",
        ),
        ("execution = { buckett = 1 }", "execution.buckett: no such option; did you mean exec"),
        ('study = "s.toml"', "study: no such option; accelarray list options shows all"),
        ("levels = 3", "levels: accelarray sweep does not read this option; remove the line"),
        ("design.area = 3", "design.area: accelarray sweep does not read this option; remove"),
        ("network.bandwidth = 2024-01-01", "network.bandwidth: datetime.date(2024, 1, 1): write"),
        ('batch = "x"', "batch: 'x': must be a whole number"),
        ("batch = [1, 2]", "batch: '1,2': must be a whole number"),
        ("networks = []", "networks: []: write a text, a number or a list of them"),
        ("overlap = true", "overlap: True: write a text"),
        ('execution = "x"', "execution: 'x': one of published, deployed"),
        ("strict-memory = 1", "strict-memory: 1: must be true or false"),
        ("vary = [1]", 'vary: write a table, as [vary], or a list of "KEY=VALUE"'),
        ("set.a = 2024-01-01", "set.a: datetime.date(2024, 1, 1): write a text"),
        ("set.a = [2024-01-01]", "set.a: [datetime.date(2024, 1, 1)]: write texts and numbers"),
        ("x", "not valid TOML: Expected '=' after a key"),
        ("x = " + "[" * 5000, "not valid TOML: "),
        ("#" * (1 << 20) + "\n", "larger than 1 MiB; not a file of options"),
    ],
)
def test_what_is_wrong_names_file_and_key(
    text: str, words: str, study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study.write_text(text)
    assert main(["sweep", "--vary", "batch=8", "--study", "s.toml"]) == 2
    err = capsys.readouterr().err
    assert f"s.toml: {words}" in err
    assert "Traceback" not in err


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "--study", "none.toml"]) == 2
    assert "none.toml: cannot be read: No such file" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        parse(["sweep", "--config"])
    assert "--config needs a value: --config FILE" in capsys.readouterr().err


def test_a_file_gives_required_flags_and_nothing_else_does(study: Path) -> None:
    study.write_text("batch = 8")
    with pytest.raises(SystemExit):
        parse(["sweep", "--study", "s.toml"])
    assert isinstance(parse(["sweep", "--vary", "batch=1"]), argparse.Namespace)


RUN = """
parallel = "tp=2,dp=4"
batch = 64
recompute = "full"
micro-batch = 2
[model]
name = "gpt2:layers=2"
attention = "fused"
[execution]
model = "deployed"
bucket = "1 MiB"
strict_memory = true
[network]
bandwidth = "100 Gbit/s"
[devices.0]
count = 2
"""


def test_keys_are_those_of_list_options_and_of_the_array(study: Path) -> None:
    """Dotted keys, tables and flags' names; ``--set`` takes the same, typed flags win over it."""
    study.write_text(RUN)
    args = parse(["simulate", "--config", "s.toml"])
    typed = parse(
        shlex.split(
            "simulate gpt2:layers=2 --parallel tp=2,dp=4 --batch 64 --recompute full "
            "--micro-batch 2 --attention fused --execution deployed --bucket '1 MiB' "
            "--strict-memory --set network.bandwidth='100 Gbit/s' --set devices.0.count=2"
        )
    )
    assert vars(args) | {"config": None} == vars(typed)
    keys = (
        "parallel=tp=2,dp=4",
        "batch=64",
        "recompute=full",
        "micro-batch=2",
        "devices.0.count=2",
    )
    more = ("model.attention=fused", "execution.model=deployed", "execution.bucket=1 MiB")
    sets = [f"--set={text}" for text in (*keys, *more, "execution.strict_memory=true")]
    sets.append("--set=network.bandwidth=100 Gbit/s")
    args = parse(["simulate", "gpt2:layers=2", *sets])
    args.set.reverse()
    assert vars(args) == vars(typed)
    args = parse(["simulate", "--config", "s.toml", "--set", "batch=8", "lenet"])
    assert (args.batch, args.network) == (8, "lenet")
    for said in (["--set", "batch=8"], ["--set=batch=8"]):
        with pytest.raises(UsageError, match="--batch says it too"):
            parse(["simulate", *said, "lenet", "--batch", "16"])
    with pytest.raises(UsageError, match="--precision says it too"):
        parse(["simulate", "lenet", "--precision", "bf16", "--set", "precision=fp32"])


def test_a_typed_flag_goes_before_set_of_a_file_and_repeats_add_up(study: Path) -> None:
    study.write_text('set = ["batch=64"]')
    assert parse(["simulate", "lenet", "--config", "s.toml", "--batch", "32"]).batch == 32
    both = ["sweep", "--vary", "batch=8,16", "--set", "vary=zero=0,1"]
    assert parse(both).vary == ["zero=0,1", "batch=8,16"]


def test_what_is_typed_of_the_split_replaces_what_the_file_says(study: Path) -> None:
    study.write_text('planner = "hypar"')
    args = parse(["simulate", "lenet", "--parallel", "dp=2", "--config", "s.toml"])
    assert (args.planner, args.parallel) == (None, "dp=2")
    args = parse(["simulate", "lenet", "--config", "s.toml"])
    assert (args.planner, args.parallel) == ("hypar", None)


def test_an_option_of_set_is_checked(capsys: pytest.CaptureFixture[str]) -> None:
    for text, words in {
        "batch=x": "--set batch: 'x': must be a whole number",
        "execution.model=x": "--set execution.model: 'x': one of published, deployed",
        "execution.strict_memory=3": "--set execution.strict_memory: '3': must be true or false",
    }.items():
        assert main(["simulate", "lenet", "--planner", "owt", "--set", text]) == 2
        assert words in capsys.readouterr().err

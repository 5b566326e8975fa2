"""Transformers from a small TOML file, and from keys behind a name."""

from pathlib import Path

import pytest

from experiments.cli import main
from workloads import SIZES, NetworkError, is_network, load_network


def written(folder: Path, *lines: str) -> str:
    path = folder / "mine.toml"
    path.write_text("\n".join(['kind = "transformer"', *lines]))
    return str(path)


def test_like_a_known_one(tmp_path: Path) -> None:
    path = written(tmp_path, 'like = "llama3-8b"', "layers = 2", "seq = 64")
    network, known = load_network(path), load_network("llama3-8b:layers=2:seq=64")
    assert is_network(path)
    assert network.layers == known.layers
    assert network.name == "mine"
    assert network.description == "mine (like llama3-8b), 64 tokens"


def test_from_nothing(tmp_path: Path) -> None:
    sizes = ("layers = 3", "hidden = 16", "heads = 2", "vocab = 40", "seq = 8", "capacity = 1")
    network = load_network(written(tmp_path, 'name = "ours"', *sizes))
    assert network.name == "ours"
    assert network.parameters == 3 * (12 * 256 + 13 * 16) + (40 + 8 + 2) * 16


def test_sizes_that_follow_from_others_follow_them_again() -> None:
    wide = load_network("gpt3-125m:hidden=1536:layers=1")
    assert {x.name: x for x in wide.layers}["layer0.fc1"].output.channels == 4 * 1536
    # a feed-forward that is not the usual width is kept, and heads keep their features
    other = {x.name: x for x in load_network("llama3-8b:heads=16:layers=1").layers}
    assert other["layer0.up"].output.channels == SIZES["llama3-8b"].ffn
    assert other["layer0.query"].output.channels == 4096
    assert other["layer0.key"].output.channels == 8 * 256


def test_words_behind_a_name() -> None:
    network = load_network("llama3-8b:layers=1:attention=fused:tied=yes:seq=32")
    assert network.name == "llama3-8b:layers=1:attention=fused:tied=yes:seq=32"
    assert [x.kind for x in network.layers].count("attention") == 1
    assert network.layers[-2].shared == "embedding"
    assert load_network("mixtral-8x7b:layers=1:seq=64:capacity=1.5").layers


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["layer = 3"], "layer: unknown key; did you mean layers?"),
        (['like = "gpt"'], "like = 'gpt': did you mean"),
        (['layers = "3"'], "layers: '3': must be a whole number from 1 to 4,096"),
        (["layers = true"], "layers: True: must be a whole number"),
        (["tied = 1"], "tied: 1: must be true or false"),
        (["layers = 5000"], "layers: 5000: must be a whole number from 1 to 4,096"),
        (["hidden = 8", "heads = 2", "vocab = 9"], "layers is missing; say it, or take over"),
        (['like = "gpt2"', "seq = 1025"], "transformer 'mine': seq = 1025: is beyond its 1024"),
        (["=="], "not valid TOML"),
    ],
)
def test_files_that_cannot_be(lines: list[str], words: str, tmp_path: Path) -> None:
    with pytest.raises(NetworkError, match=r"mine\.toml") as caught:
        load_network(written(tmp_path, *lines))
    assert words in str(caught.value)


def test_a_file_of_another_kind(tmp_path: Path) -> None:
    path = tmp_path / "array.toml"
    path.write_text('[devices]\nname = "x"\n')
    assert not is_network(str(path))
    with pytest.raises(NetworkError, match='kind = None: write kind = "transformer"'):
        load_network(str(path))
    with pytest.raises(NetworkError, match="cannot be read"):
        load_network(str(tmp_path / "none.toml"))
    path.write_bytes(b'kind = "transformer"\n' + b"#" * (1 << 16))
    with pytest.raises(NetworkError, match="larger than 64 KiB"):
        load_network(str(path))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gpt3-175b:layer=3", "did you mean layers?"),
        ("gpt3-175b:layers=x", "layers: 'x': must be a whole number"),
        ("gpt3-175b:tied=maybe", "tied: 'maybe': must be true or false"),
        ("gpt3-175b:heads=7", "heads = 7: do not divide hidden = 12288"),
        ("gpt3-175b:layers=0", "layers: '0': must be a whole number from 1 to 4,096"),
        ("gpt3-176b", "did you mean gpt3-175b?"),
    ],
)
def test_names_that_cannot_be(name: str, words: str) -> None:
    with pytest.raises(NetworkError) as caught:
        load_network(name)
    assert words in str(caught.value)


def test_the_command_line_takes_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, 'like = "gpt3-125m"', "layers = 1", "seq = 32")
    step = ["--planner", "data_parallel", "--array", "tpu-v3-8", "--batch", "8"]
    for form in ("fused", "unfused"):
        assert main(["simulate", path, *step, "--attention", form]) == 0
        assert f"mine, attention {form}, data_parallel" in capsys.readouterr().out
    assert main(["simulate", path, *step, "--attention", "flash"]) == 2
    assert "attention 'flash': one of fused, unfused, eager" in capsys.readouterr().err
    assert main(["show", path]) == 0
    assert "mine (like gpt3-125m), 32 tokens" in capsys.readouterr().out

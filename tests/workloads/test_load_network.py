"""Networks by name: options, paths, and what a slip of the pen is told."""

from pathlib import Path

import pytest

from workloads import (
    FURTHER,
    HYPAR,
    NETWORKS,
    SEQUENCES,
    ZOO,
    NetworkError,
    is_network,
    load_network,
)


def test_the_groups_make_up_the_whole_and_share_nothing() -> None:
    assert NETWORKS.keys() == ZOO.keys() | FURTHER.keys() | HYPAR.keys()
    assert len(NETWORKS) == len(ZOO) + len(FURTHER) + len(HYPAR)
    assert SEQUENCES.keys() <= FURTHER.keys()


@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_has_its_name_and_a_description(name: str) -> None:
    network = load_network(name)
    assert network.name == name
    assert network.description
    assert network.notes == ()
    assert network.weights <= network.parameters


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("resnet5", "unknown network 'resnet5'; did you mean resnet"),
        ("VGG16", "did you mean vgg16"),
        ("mobilenetv2", "did you mean mobilenet-v2"),
        ("", "one of lenet, alexnet"),
        ("zzz", "(or the path of an .onnx, .toml, .txt or config.json file)"),
        ("lenet:seq=4", "network 'lenet' takes no option, found 'seq=4'"),
        ("gpt2:", "expected seq=N with N within 1...1048576"),
        ("gpt2:seq=0", "expected seq=N"),
        ("gpt2:seq=1025", "beyond its 1024 positions"),
        ("bert-base:seq=513", "beyond its 512 positions"),
        ("gpt-2:seq=8", "did you mean gpt2"),
        ("InceptionV3", "did you mean inception-v3"),
        ("gpt2:seq=-3", "expected seq=N"),
        ("gpt2:seq=1.5", "expected seq=N"),
        ("gpt2:seq=1048577", "expected seq=N"),
        ("gpt2:seq=99999999999999", "expected seq=N"),
        ("gpt2:len=4", "expected seq=N"),
        ("gpt2:seq=٣", "expected seq=N"),
        ("transformer:layers=2", "hidden is missing"),
        ("transformer", "expected seq=N"),
        ("config.json", "config.json: cannot be read"),
        ("nothing.txt", "nothing.txt: cannot be read"),
        ("nothing.onnx", "nothing.onnx: cannot be read"),
    ],
)
def test_what_is_no_network(
    name: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NetworkError) as caught:
        load_network(name)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("lenet", True),
        ("gpt2:seq=8", True),
        ("gpt2:nonsense", True),
        ("mine.txt", True),
        ("mine.onnx", True),
        ("mine.onnx:steps=3", True),
        ("accpar-mixed", False),
        ("mine.toml", False),
        ("config.json:seq=8", True),
        ("transformer:layers=2", True),
    ],
)
def test_what_looks_like_a_network(name: str, known: bool) -> None:
    assert is_network(name) is known


def test_a_layer_file_by_path(tmp_path: Path) -> None:
    path = tmp_path / "two.txt"
    path.write_text("num_layers 2\na FC\nin_ch 4\nout_ch 6\nb FC\nin_ch 6\nout_ch 2\n")
    network = load_network(str(path))
    assert (network.name, network.weights) == ("two", 36)

import random
from pathlib import Path

import pytest

from workloads import NetworkError, Tensor, partition_graph, read_layer_file

CONV = (
    "c CONV\nin_ch 3\nin_fmap_h 8\n"
    "in_fmap_w 16\nkernel 3\nout_ch 4\nout_fmap_h 4\nout_fmap_w 8\npool 2\n"
)
FC = "f FC\nin_ch 10\nout_ch 5\n"
REFERENCE = Path(__file__).parents[2] / "data" / "accpar_reference"


def write(folder: Path, text: str) -> Path:
    path = folder / "net.txt"
    path.write_text(text)
    return path


def test_shapes_are_taken_as_written(tmp_path: Path) -> None:
    network = read_layer_file(write(tmp_path, "num_layers 2\n" + CONV + "\n" + FC))
    assert network.name == "net"
    conv, pool, fc = network.layers
    assert conv.input == Tensor(3, 8, 16)
    assert conv.output == Tensor(4, 8, 16)  # before the pool
    assert pool.output == Tensor(4, 4, 8)
    assert fc.input == Tensor(10)  # though the pool writes 4x4x8
    assert fc.inputs == ("c.pool",)
    assert network.weights == 3 * 4 * 9 + 50
    assert [node.pooled_area for node in partition_graph(network)] == [32, 1]
    assert network.notes == ("f reads 10x1x1, but c.pool writes 4x4x8",)


@pytest.mark.parametrize(
    ("conv", "fc", "notes"),
    [
        ("", "in_ch 128", []),
        ("", "in_ch 4", ["f reads 4x1x1, but c.pool writes 4x4x8"]),
        ("", "inputs input\nin_ch 10", []),
        ("out_fmap_h 5", "in_ch 160", []),
        ("out_fmap_h 6", "in_ch 192", ["c makes 4x12x16 of 3x8x16, more than any padding gives"]),
    ],
)
def test_shapes_that_cannot_be_are_noted(
    tmp_path: Path, conv: str, fc: str, notes: list[str]
) -> None:
    layers = CONV.replace("out_fmap_h 4", conv or "out_fmap_h 4"), FC.replace("in_ch 10", fc)
    network = read_layer_file(write(tmp_path, "num_layers 2\n" + "".join(layers)))
    assert list(network.notes) == notes


@pytest.mark.parametrize("path", sorted(REFERENCE.glob("*.txt")), ids=lambda path: path.stem)
def test_the_authors_files_are_read_whole(path: Path) -> None:
    network = read_layer_file(path)
    assert sum(layer.weighted for layer in network.layers) == int(path.read_text().split()[1])


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", 1, "expected 'num_layers NUMBER', the file ends"),
        ("layers 3", 1, "expected 'num_layers NUMBER', found 'layers 3'"),
        ("num_layers x", 1, "whole number"),
        ("num_layers 0", 1, "whole number"),
        ("num_layers -1", 1, "whole number"),
        ("num_layers 99999", 1, "more than"),
        ("num_layers 2\n" + FC, 5, "'NAME CONV' or 'NAME FC' (layer 2 of 2), the file ends"),
        ("num_layers 1\nf POOL\n", 2, "expected CONV or FC after 'f', found 'POOL'"),
        ("num_layers 1\nf FC\nin_ch 3\nout 3\n", 4, "expected 'out_ch NUMBER', found 'out 3'"),
        ("num_layers 1\nf FC\nin_ch 3 4\n", 3, "found 'in_ch 3 4'"),
        ("num_layers 1\nf FC\nin_ch 1e9\n", 3, "whole number"),
        ("num_layers 1\nf FC\nin_ch 999999999999999999999\n", 3, "whole number"),
        ("num_layers 1\n\n" + FC + FC, 6, "expected the end after 1 layers"),
        ("num_layers 2\n" + FC + FC, 5, "'f' is used twice"),
        ("num_layers 1\n" + CONV.replace("kernel 3\n", ""), 6, "expected 'kernel NUMBER'"),
    ],
)
def test_a_malformed_file_names_line_and_expectation(
    tmp_path: Path, text: str, line: int, words: str
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(NetworkError) as caught:
        read_layer_file(path)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert words in str(caught.value)


def test_files_that_are_no_layer_files(tmp_path: Path) -> None:
    with pytest.raises(NetworkError, match="cannot be read"):
        read_layer_file(tmp_path / "nothing.txt")
    with pytest.raises(NetworkError, match="cannot be read"):
        read_layer_file(tmp_path)
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(NetworkError, match="not a text file"):
        read_layer_file(tmp_path / "binary.txt")
    (tmp_path / "huge.txt").write_bytes(b" " * (5 << 20))
    with pytest.raises(NetworkError, match="larger than"):
        read_layer_file(tmp_path / "huge.txt")


def test_absurd_shapes_name_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, f"num_layers 1\nf FC\nin_ch {1 << 24}\nout_ch {1 << 24}\n")
    assert read_layer_file(path).weights == 1 << 48
    conv = CONV.replace("in_ch 3", f"in_ch {1 << 24}").replace("out_ch 4", f"out_ch {1 << 24}")
    path = write(tmp_path, "num_layers 1\n" + conv.replace("kernel 3", f"kernel {1 << 24}"))
    with pytest.raises(NetworkError, match=rf"{path}.*absurdly large"):
        read_layer_file(path)


def test_odd_paths_and_marks(tmp_path: Path) -> None:
    with pytest.raises(NetworkError, match="not a path"):
        read_layer_file("a\0.txt")
    assert read_layer_file(write(tmp_path, "\ufeffnum_layers 1\n" + FC)).weights == 50


def test_mutated_files_are_read_or_refused(tmp_path: Path) -> None:
    text = (REFERENCE / "random_48.txt").read_text()
    rng = random.Random(0)  # noqa: S311  (not cryptography)
    refused = 0
    for _ in range(300):
        at = rng.randrange(len(text))
        mutated = text[:at] + rng.choice("\0 9x\n-\u0663") + text[at + rng.randrange(3) :]
        try:
            read_layer_file(write(tmp_path, mutated))
        except NetworkError:
            refused += 1
    assert 50 < refused < 300


def test_remarks_are_no_lines_of_the_network(tmp_path: Path) -> None:
    remarked = read_layer_file(write(tmp_path, "# net.txt\nnum_layers 1\n # one layer\n" + FC))
    assert remarked.layers == read_layer_file(write(tmp_path, "num_layers 1\n" + FC)).layers

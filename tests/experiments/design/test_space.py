"""Spaces: every design once, and what is refused."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from experiments.design.space import Design, load_space, spaces
from hardware import SpecError

TEXT = """
kind = "space"
clock = "1 GHz"
[matrix]
count = [2, 1]
width = [8, 16]
depth = [4]
[vector]
count = [1, 4]
width = [32]
[buffer]
size = ["1 KiB", "256 B"]
"""


def written(folder: Path, text: str = TEXT) -> str:
    path = folder / "space.toml"
    path.write_text(text)
    return str(path)


def test_every_design_once_whose_tiles_fit(tmp_path: Path) -> None:
    """Tiles of c arrays of 4 x w elements of 2 B, twice: 16 c w bytes."""
    space = load_space(written(tmp_path))
    expected = {
        Design(c, w, 4, v, 32, float(b))
        for c, w, v, b in product((1, 2), (8, 16), (1, 4), (256, 1024))
        if 16 * c * w <= b
    }
    found = list(space)
    assert len(found) == len(expected) < len(space) == 16
    assert set(found) == expected
    assert {space.at(i) for i in range(len(space))} >= expected
    assert len({space.at(i) for i in range(len(space))}) == len(space)


def test_steps_along_a_field(tmp_path: Path) -> None:
    space = load_space(written(tmp_path))
    design = Design(1, 8, 4, 1, 32, 256.0)
    assert space.moved(design, "vector_count", 1) == Design(1, 8, 4, 4, 32, 256.0)
    assert space.moved(design, "buffer_bytes", 1) == Design(1, 8, 4, 1, 32, 1024.0)
    assert space.moved(design, "matrix_width", -1) is None
    assert space.moved(design, "matrix_depth", 1) is None


def test_a_design_reads_as_its_units() -> None:
    assert str(Design(8, 64, 128, 4, 256, 2.0**23)) == "8 x 128x64, 4 x 256, 8 MiB"
    space = replace(load_space("small"), clock_hz=1e9, dataflow="output_stationary")
    units = space.units(Design(8, 64, 128, 4, 256, 2.0**23))
    assert units.flops_per_s == 2e9 * 8 * 64 * 128
    assert units.matrix[0].dataflow == "output_stationary"


@pytest.mark.parametrize("name", spaces())
def test_those_that_come_with_it(name: str) -> None:
    space = load_space(name)
    assert len(space) >= 2000
    assert next(iter(space)) in space


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("count = [2, 1]", "count = []", "matrix.count: []: must have at least 1 item"),
        ("count = [2, 1]", "count = [2, 3]", "matrix.count.1: 3: must be a power of two"),
        (
            "width = [32]",
            "width = [0]",
            "vector.width.0: 0: must be a whole number from 1 to 65,536",
        ),
        ("width = [32]", "width = [32, 32]", "vector.width: [32, 32]: a value is there twice"),
        ("depth = [4]", "depth = 4", "matrix.depth: 4: "),
        ('clock = "1 GHz"', "", "clock: is missing"),
        ('"1 KiB", "256 B"', '"8 B"', "no design: not even the smallest matrix unit's tiles fit"),
        ('kind = "space"', 'kind = "device"', "kind: 'device': must be 'space'"),
        ("[buffer]", "[buffers]", "buffers: unknown key; did you mean buffer?"),
        ("[matrix]", "[matrix", "not valid TOML"),
    ],
)
def test_mistakes_name_file_key_and_remedy(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = written(tmp_path, TEXT.replace(old, new, 1))
    with pytest.raises(SpecError) as caught:
        load_space(path)
    assert said in str(caught.value)
    assert path in str(caught.value)


def test_unknown_and_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="unknown space 'smal'; did you mean small"):
        load_space("smal")
    with pytest.raises(SpecError, match="cannot be read"):
        load_space(str(tmp_path / "none.toml"))
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SpecError, match="not a text file"):
        load_space(str(tmp_path / "binary.toml"))

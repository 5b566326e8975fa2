import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.output import UsageError
from experiments.studies.options import parse_vary
from hardware import format_quantity, parse_quantity, split_quantity


def test_lists() -> None:
    axis = parse_vary("batch = 64, 128,64")
    assert (axis.key, axis.title, axis.numeric) == ("batch", "batch", True)
    assert [value.number for value in axis.values] == [64, 128]
    assert [str(value.number) for value in axis.values] == ["64", "128"]
    shares = parse_vary("overlap=1,0.5")
    assert [str(value.number) for value in shares.values] == ["1", "0.5"]
    names = parse_vary("devices.0.device=tpu-v2,tpu-v3")
    assert not names.numeric
    assert [value.text for value in names.values] == ["tpu-v2", "tpu-v3"]
    rates = parse_vary("network.bandwidth=8 Gbit/s,1 Tbit/s")
    assert rates.title == "network.bandwidth [bit/s]"
    assert [value.number for value in rates.values] == [8e9, 1e12]


def test_ranges() -> None:
    axis = parse_vary("network.bandwidth=1 Gbit/s:1 Tbit/s:log:4")
    assert [value.label for value in axis.values] == [
        "1 Gbit/s",
        "10 Gbit/s",
        "100 Gbit/s",
        "1 Tbit/s",
    ]
    assert axis.logarithmic
    counts = parse_vary("devices.0.count=2:10:lin:5")
    assert [value.text for value in counts.values] == ["2", "4", "6", "8", "10"]
    assert not counts.logarithmic
    few = parse_vary("batch=1:4:log:9")
    assert [value.text for value in few.values] == ["1", "2", "3", "4"]


def test_a_range_of_counts_has_whole_ones() -> None:
    axis = parse_vary("micro_batches=4:16:log:3")
    assert [str(value.number) for value in axis.values] == ["4", "8", "16"]


@pytest.mark.parametrize(
    ("text", "points"),
    [
        ("devices.0.roofline.matrix_efficiency=0.6:1.0:lin:5", ["0.6", "0.7", "0.8", "0.9", "1.0"]),
        ("devices.0.roofline.contention=0:0.4:lin:3", ["0", "0.2", "0.4"]),
        ("price=1.5:24:log:3", ["1.5", "6", "24"]),
        (
            "topology.levels.1.oversubscription=1.0:4:lin:7",
            ["1.0", "1.5", "2", "2.5", "3", "3.5", "4"],
        ),
        ("topology.levels.1.oversubscription=1:4:lin:7", ["1", "2", "3", "4"]),
    ],
)
def test_a_range_of_fractions_has_fractions(text: str, points: list[str]) -> None:
    """Whole numbers alone are taken for counts."""
    axis = parse_vary(text)
    assert [value.text for value in axis.values] == points
    assert [value.number for value in axis.values] == list(map(float, points))


def test_a_range_is_simulated_as_it_is_written() -> None:
    axis = parse_vary("network.bandwidth=1 Gbit/s:1 Tbit/s:log:16")
    assert axis.values[7].text == axis.values[7].label == "25.12 Gbit/s"
    assert axis.values[7].number == 25.12e9
    close = parse_vary("network.bandwidth=1 Gbit/s:1.001 Gbit/s:lin:11")
    assert close.values[5].text == "1.0005 Gbit/s"
    assert len({value.number for value in close.values}) == 11


@given(st.floats(1, 1e6), st.floats(1, 1e6), st.sampled_from(["log", "lin"]), st.integers(2, 20))
def test_every_value_of_a_range_is_a_quantity_between_its_ends(
    low: float, high: float, scale: str, count: int
) -> None:
    axis = parse_vary(f"k={low:.4f} MB/s:{high:.4f} MB/s:{scale}:{count}")
    numbers = [parse_quantity(value.text, "B/s") for value in axis.values]
    assert numbers == [value.number for value in axis.values]
    assert len(numbers) == count
    ends = sorted((numbers[0], numbers[-1]))
    assert all(ends[0] * (1 - 1e-9) <= n <= ends[1] * (1 + 1e-9) for n in numbers)


NONSENSE = """
batch; =3; batch=; batch=1,,2; batch=1:2:log:1; batch=1:2:log:x; batch=0:2:log:3; batch=a:b:lin:3
k=1 GB/s:2:log:3; k=1 GB/s:2 GB:log:3; batch=1:2:log:1000000
"""


@pytest.mark.parametrize("text", ["", *re.split(r"[;\n]", NONSENSE.strip())])
def test_what_makes_no_sense(text: str) -> None:
    with pytest.raises(UsageError, match="--vary"):
        parse_vary(text)


def test_quantities_split_and_format() -> None:
    assert split_quantity("8 Gbit/s") == ("bit/s", 8e9)
    assert split_quantity("16 GiB") == ("B", 16 * 2.0**30)
    assert split_quantity("180 TFLOP/s") == ("FLOP/s", 180e12)
    assert split_quantity("8") is None
    assert split_quantity("8 potatoes") is None
    assert format_quantity(2.1e11, "bit/s") == "210 Gbit/s"
    assert format_quantity(0.5, "B") == "0.5 B"


@pytest.mark.parametrize("text", ["bucket=0,1e6,25 MB", "bucket=0,1000000,25000000"])
def test_buckets_are_numbers_of_bytes(text: str) -> None:
    axis = parse_vary(text)
    assert axis.title == "bucket [B]"
    assert [value.number for value in axis.values] == [0, 1e6, 25e6]
    spread = parse_vary("bucket=1e6:1e8:log:3")
    assert [value.label for value in spread.values] == ["1 MB", "10 MB", "100 MB"]

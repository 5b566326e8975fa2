import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware import format_quantity, in_bytes, parse_quantity, split_quantity


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("8 Gbit/s", "B/s", 1e9),
        ("8Gbit/s", "B/s", 1e9),
        ("1 GB/s", "B/s", 1e9),
        ("1 GiB/s", "B/s", 2.0**30),
        ("16 GiB", "B", 16 * 2.0**30),
        ("16 GB", "B", 16e9),
        ("8 bit", "B", 1.0),
        ("180 TFLOP/s", "FLOP/s", 180e12),
        ("1.5e3 FLOP/s", "FLOP/s", 1500.0),
        (" 2 kB ", "B", 2000.0),
        ("1.5 us", "s", 1.5e-6),
        ("500 ns", "s", 5e-7),
        ("3ms", "s", 0.003),
        ("0 s", "s", 0.0),
        ("4.6 pJ", "J", 4.6e-12),
        ("1 nJ", "J", 1e-9),
        ("640 pJ/B", "J/B", 640e-12),
        ("80 pJ/bit", "J/B", 640e-12),
    ],
)
def test_what_people_write(text: str, unit: str, value: float) -> None:
    assert parse_quantity(text, unit) == pytest.approx(value, rel=1e-15)


REFUSED = """
8| 8 Gb| 8 gps| 8 GBit/s| 8 gbit/s| 8 KB/s| 8 G| Gbit/s| -8 Gbit/s| +8 Gbit/s| 0 B/s| nan B/s
inf B/s| 1e999 B/s| 1e30 B/s| 5 min| 16 GiB| 180 TFLOP/s| 1_0 B/s| 8  GB/s x| 8 Gbit/s/s| ٣ B/s
"""


@pytest.mark.parametrize("text", [8, 8.0, True, None, "", *re.split(r"[|\n]", REFUSED.strip())])
def test_what_is_refused_names_an_example(text: object) -> None:
    with pytest.raises(ValueError, match='write it like "8 Gbit/s"'):
        parse_quantity(text, "B/s")


@pytest.mark.parametrize(
    "text", [0, "0", "3 ks", "3 Ms", "3 Kis", "2000 s", "3 B", "-1 us", "3 mB"]
)
def test_what_is_no_duration(text: object) -> None:
    with pytest.raises(ValueError, match=r'write it like "1\.5 us"'):
        parse_quantity(text, "s")


@pytest.mark.parametrize("text", ["4.6", "4.6 B", "0 pJ", "2 J", "5 pB"])
def test_what_is_no_energy(text: str) -> None:
    with pytest.raises(ValueError, match="write it like"):
        parse_quantity(text, "J")


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(8e9, "bit/s", "8 Gbit/s"), (1.5e-6, "s", "1.5 us"), (0.0, "s", "0 s"), (12.0, "s", "12 s")],
)
def test_formatted_quantities_read_back(value: float, unit: str, text: str) -> None:
    assert format_quantity(value, unit) == text
    assert split_quantity(text) == (unit, value)


@given(st.floats(0.01, 1e3), st.sampled_from("kMGT"))
def test_bits_are_eighths_of_bytes(number: float, prefix: str) -> None:
    bits = parse_quantity(f"{number:.6f} {prefix}bit/s", "B/s")
    assert bits * 8 == pytest.approx(parse_quantity(f"{number:.6f} {prefix}B/s", "B/s"))


@given(st.text(max_size=40))
def test_any_text_is_a_number_or_a_value_error(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert 1 <= parse_quantity(text, "B") <= 1e21


def test_a_bare_whole_number_of_bytes_gets_its_unit() -> None:
    for text in ("1e8", "100000000", " 1.0E+8 "):
        assert parse_quantity(in_bytes(text), "B") == 1e8
    for text in ("2.5", "-1", "1e-3", "25 MB", "١٢"):
        assert in_bytes(text) == text

"""Axes as they are written, and whether they are the array's devices."""

import pytest

from planners import Axes, PlanError
from planners.axes.degrees import order_of


@pytest.mark.parametrize(
    ("text", "axes"),
    [
        ("dp=16,pp=8,tp=8", Axes(16, 8, 8)),
        ("tp=8 pp=8", Axes(0, 8, 8)),
        (" ep=4, dp=8 ,pp=2,vp=3,", Axes(8, 2, 1, 3, 4)),
        ("tp=4,sp,cp=2", Axes(tp=4, cp=2, sp=True)),
        ("dp=1", Axes(1)),
    ],
)
def test_written_and_read_again(text: str, axes: Axes) -> None:
    assert Axes.parse(text) == axes
    assert Axes.parse(str(axes)) == axes or str(axes) == "dp=1"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("zp=2", "parallel=zp=2: no axis 'zp'; there are dp .samples."),
        ("dp=2,dp=2", "dp is there twice"),
        ("tp", "tp must be a whole number from 1 to 1,048,576, as tp=8"),
        ("tp=0", "tp must be"),
        ("tp=-2", "tp must be"),
        ("tp=2.5", "tp must be"),
        ("tp=999999999999", "tp must be"),
        ("sp=2", "sp must stand alone"),
        ("", "name axes, as dp=4,tp=2"),
    ],
)
def test_what_is_no_axis(text: str, words: str) -> None:
    with pytest.raises(PlanError, match=words):
        Axes.parse(text)


@pytest.mark.parametrize(
    ("axes", "words"),
    [
        (Axes(4, 4, 3), "pp 4 x dp 4 x tp 3 is 48, and 'gpus' has 64 acc.*product divides 64"),
        (Axes(3, 1, 8), "dp 3 x tp 8 is 24.*dp=8 would fill it"),
        (Axes(pp=3), "pp 3, and 'gpus' has 64"),
        (Axes(tp=8, ep=3), "ep=3 does not divide dp=8"),
        (Axes(tp=8, ep=128), "nor dp x tp into groups with all of tp"),
        (Axes(64, sp=True), "sp is among the devices of tp"),
        (Axes(8, cp=4), "dp 8 x cp 4 is 32"),
        (Axes(tp=8, ep=4, etp=1), "etp=1 leaves experts whole: ep=4 must be a multiple of tp=8"),
        (Axes(tp=8, etp=1), "ep=1 must be a multiple of tp=8 that divides dp x tp, 64$"),
        (Axes(tp=8, ep=64, etp=8), "ep=64 does not divide dp=8, .* where etp=8 splits each as tp"),
        (Axes(tp=8, ep=4, etp=4), "etp=4: 1, or as many as tp=8"),
        (Axes(64, vp=2), "vp=2 stages at each place need pp"),
    ],
)
def test_what_is_not_the_array(axes: Axes, words: str) -> None:
    with pytest.raises(PlanError, match=words):
        axes.on(64, "gpus")


def test_samples_take_what_is_left() -> None:
    assert Axes(pp=2, tp=8).on(64, "gpus").dp == 4
    assert Axes().on(1, "one").dp == 1


def test_order() -> None:
    assert order_of("") == order_of("tp,dp,pp") == ("tp", "cp", "dp", "pp")
    assert order_of("dp, tp, pp") == ("dp", "tp", "cp", "pp")
    assert order_of("cp,tp,dp,pp") == ("cp", "tp", "dp", "pp")
    for wrong in ("tp,pp,dp", "tp,dp", "tp,tp,pp", "x"):
        with pytest.raises(PlanError, match="name each of tp, cp, dp, pp once"):
            order_of(wrong)

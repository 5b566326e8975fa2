"""CHARM's evaluation: the figures that its public model gives, and the run beside them."""

import pytest

from experiments.papers import charm
from experiments.papers.charm import ONE, ONE_UNIT, TWO, applications, run_batches, units_of
from simulator.cost.units.charm import assign

GIVEN = {
    ("BERT", ONE): (418, 320),
    ("BERT", TWO): (1468, 1103),
    ("ViT", ONE): (79, 61),
    ("ViT", TWO): (1481, 1114),
    ("NCF", ONE): (2347, 1774),
    ("MLP", ONE): (3774, 2853),
}
"""GFLOP/s at full DDR and at 0.75 of it, from running the authors' public model."""


@pytest.mark.parametrize(("name", "planner"), GIVEN)
def test_the_public_models_figures(name: str, planner: str) -> None:
    application = applications()[name]
    for share, given in zip((1.0, 0.75), GIVEN[name, planner], strict=True):
        ours = application.throughput(units_of(application, planner), share)
        assert ours == pytest.approx(given, rel=0.005, abs=0.51)  # they are rounded


@pytest.mark.parametrize("name", ["BERT", "ViT", "NCF", "MLP"])
@pytest.mark.parametrize("share", [1.0, 0.75])
def test_the_run_is_operations_over_the_slowest_unit(name: str, share: float) -> None:
    application = applications()[name]
    for units in ((ONE_UNIT,), application.units):
        ran = run_batches(application, units, share, on_demand=False)
        assert ran == pytest.approx(application.throughput(units, share), rel=1e-9)


def test_ddr_on_demand_is_no_slower_than_equal_parts() -> None:
    bert = applications()["BERT"]
    fixed, free = (run_batches(bert, bert.units, 1.0, on_demand=way) for way in (False, True))
    assert free > 1.2 * fixed
    alone = bert.operations / assign(bert.products, (ONE_UNIT,), 1.0).slowest_s / 1e9
    assert run_batches(bert, (ONE_UNIT,), 1.0, on_demand=True) == pytest.approx(alone)


def test_the_products_are_the_given_ones() -> None:
    """Shapes as sets with their repetitions, so that the order is free."""
    shapes = {a.name: {p[1:] for p in a.products} for a in applications().values()}
    assert shapes["BERT"] == {
        (3072, 1024, 1024, 4),
        (3072, 1024, 4096, 1),
        (3072, 4096, 1024, 1),
        (512, 512, 64, 96),
        (512, 64, 512, 96),
    }
    assert (64, 64, 64, 1536) in shapes["ViT"]
    assert len(shapes["ViT"]) == 6
    assert [len(shapes[name]) for name in ("NCF", "MLP")] == [9, 3]


def test_figures_and_what_they_say() -> None:
    told: list[str] = []
    figures = {key: charm.FIGURES[key]().made(told.append) for key in ("fitted", "gain")}
    assert len(told) == sum(len(figure.rows) for figure in figures.values())
    assert any("No single share fits" in line for line in figures["fitted"].messages)
    (said,) = figures["gain"].messages
    assert "7.7% of its operations and take 86% of the time" in said
    gains = {row["network"]: row for row in figures["gain"].rows}
    assert gains["NCF"]["ours"] == gains["MLP"]["ours"] == 1.0
    assert gains["ViT"]["published"] == 32.51


def test_the_fit_is_the_best_share() -> None:
    best = charm.fitted_share(ONE)
    others = [best - 0.02, best + 0.02]

    def worst(share: float) -> float:
        from math import log

        return sum(
            log(one.throughput((ONE_UNIT,), share) / one.published(ONE)) ** 2
            for one in applications().values()
        )

    assert all(worst(best) < worst(share) for share in others)

"""Options of the deployed model, as people write them."""

import pytest

from experiments.output import UsageError
from experiments.studies.model_options import CHOICES, MODEL_OPTIONS, with_options
from simulator import DEPLOYED, PUBLISHED


def test_each_option_changes_its_own_field() -> None:
    changed = {
        "overlap": with_options(DEPLOYED, {"overlap": "none"}).overlap,
        "shards": with_options(DEPLOYED, {"shards": "exact"}).whole_shards,
        "bucket": with_options(DEPLOYED, {"bucket": "25 MB"}).bucket_bytes,
        "algorithm": with_options(DEPLOYED, {"algorithm": "ring"}).algorithm,
    }
    assert changed == {"overlap": False, "shards": False, "bucket": 25e6, "algorithm": "ring"}
    assert set(changed) == set(MODEL_OPTIONS)
    defaults = {"overlap": "full", "shards": "whole", "algorithm": "auto"}
    assert with_options(DEPLOYED, defaults) == DEPLOYED
    assert with_options(DEPLOYED, {}) is DEPLOYED
    assert with_options(PUBLISHED, {}) is PUBLISHED


@pytest.mark.parametrize("name", CHOICES)
def test_every_choice_is_taken_and_no_other(name: str) -> None:
    for text in CHOICES[name]:
        with_options(DEPLOYED, {name: text})
    with pytest.raises(UsageError, match=f"{name}=half: one of {CHOICES[name][0]}, "):
        with_options(DEPLOYED, {name: "half"})


@pytest.mark.parametrize("text", ["0", "0 B", "0.0 B"])
def test_without_buckets_each_gradient_goes_by_itself(text: str) -> None:
    assert with_options(DEPLOYED, {"bucket": text}).bucket_bytes == 0


@pytest.mark.parametrize("text", ["1e8", "100000000", "100 MB", "100000000 B"])
def test_buckets_are_numbers_of_bytes_too(text: str) -> None:
    assert with_options(DEPLOYED, {"bucket": text}).bucket_bytes == 1e8


@pytest.mark.parametrize("text", ["2.5", "1e99", "x MB", "25 Gbit/s", "-1 MB"])
def test_buckets_are_bytes(text: str) -> None:
    with pytest.raises(UsageError, match=f"bucket={text}: "):
        with_options(DEPLOYED, {"bucket": text})


@pytest.mark.parametrize("name", MODEL_OPTIONS)
def test_the_published_model_has_none(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name}=x has no meaning under the published"):
        with_options(PUBLISHED, {name: "x"})

"""Options of the deployed model, and of pipelines, as people write them."""

import pytest

from experiments.output import UsageError
from experiments.studies.options import (
    CHOICES,
    DEPLOYED_OPTIONS,
    MODEL_OPTIONS,
    STAGE_OPTIONS,
    option_name,
    with_options,
)
from planners import Axes, Staging
from simulator import DEPLOYED, PUBLISHED, Execution


def test_each_option_changes_its_own_field() -> None:
    changed = {
        "overlap": with_options(DEPLOYED, {"overlap": "none"}).overlap,
        "shards": with_options(DEPLOYED, {"shards": "exact"}).whole_shards,
        "bucket": with_options(DEPLOYED, {"bucket": "25 MB"}).bucket_bytes,
        "update_order": with_options(DEPLOYED, {"update_order": "arrival"}).update_order,
        "algorithm": with_options(DEPLOYED, {"algorithm": "ring"}).algorithm,
        "memory_reserve": with_options(DEPLOYED, {"memory_reserve": "6 %"}).memory_reserve,
    }
    assert changed == {
        "overlap": False,
        "shards": False,
        "bucket": 25e6,
        "update_order": "arrival",
        "algorithm": "ring",
        "memory_reserve": 0.06,
    }
    assert set(changed) == set(DEPLOYED_OPTIONS)
    defaults = {"overlap": "full", "shards": "whole", "algorithm": "auto"}
    assert with_options(DEPLOYED, defaults) == DEPLOYED
    assert with_options(DEPLOYED, {}) is DEPLOYED
    assert with_options(PUBLISHED, {}) is PUBLISHED


@pytest.mark.parametrize("name", CHOICES)
def test_every_choice_is_taken_and_no_other(name: str) -> None:
    for text in CHOICES[name]:
        with_options(DEPLOYED, {name: text})
    flag = name.replace("_", "-")
    with pytest.raises(UsageError, match=f"^{flag}=half: one of {', '.join(CHOICES[name])}$"):
        with_options(DEPLOYED, {name: "half"})


@pytest.mark.parametrize("text", ["0", "0 B", "0.0 B", "0 MB", "0 KiB"])
def test_without_buckets_each_gradient_goes_by_itself(text: str) -> None:
    assert with_options(DEPLOYED, {"bucket": text}).bucket_bytes == 0


@pytest.mark.parametrize("text", ["1e8", "100000000", "100 MB", "100000000 B"])
def test_buckets_are_numbers_of_bytes_too(text: str) -> None:
    assert with_options(DEPLOYED, {"bucket": text}).bucket_bytes == 1e8


@pytest.mark.parametrize("text", ["2.5", "1e99", "x MB", "25 Gbit/s", "-1 MB"])
def test_buckets_are_bytes(text: str) -> None:
    with pytest.raises(UsageError, match=f"bucket={text}: "):
        with_options(DEPLOYED, {"bucket": text})


@pytest.mark.parametrize("name", DEPLOYED_OPTIONS)
def test_the_published_model_has_none_of_the_deployed(name: str) -> None:
    flag = name.replace("_", "-")
    with pytest.raises(UsageError, match=f"{flag}=x has no meaning under the published"):
        with_options(PUBLISHED, {name: "x"})


STAGED = {
    "stages": ("4", 4),
    "schedule": ("gpipe", "gpipe"),
    "micro_batches": ("8", 8),
    "virtual": ("2", 2),
    "recompute": ("stages:0,3", "0,3"),
    "tied": ("copies", "copies"),
    "vertical_sync": ("yes", True),
    "batches": ("16", 16),
    "cuts": ("conv2, fc1", ("conv2", "fc1")),
    "parallel": ("dp=2 tp=4", Axes(2, 1, 4)),
    "axis_order": ("dp, tp,pp", "dp,tp,cp,pp"),
    "micro_batch": ("3", 3),
    "stage_hw": ("v100: 4x2", "v100:4x2"),
    "stage_layers": ("7; 5", (7, 5)),
}
"""Every option of a pipeline as people write it, and the field that it becomes."""


@pytest.mark.parametrize("execution", [PUBLISHED, DEPLOYED], ids=lambda e: e.model)
def test_stages_are_for_both_models_each_option_in_its_own_field(execution: Execution) -> None:
    others = {"mode", "zero", "update", *DEPLOYED_OPTIONS}
    assert set(STAGED) == set(STAGE_OPTIONS) == set(MODEL_OPTIONS) - others
    plain = Staging()
    for name, (text, value) in STAGED.items():
        staging = with_options(execution, {name: text}).staging
        assert staging is not None
        changed = {f for f in STAGED if getattr(staging, f) != getattr(plain, f)}
        says_axes = {"parallel"} if name == "stage_hw" else set()  # its tp, dp and pp
        assert changed == {name} | says_axes
        assert getattr(staging, name) == value
    together = with_options(execution, {name: text for name, (text, _) in STAGED.items()})
    assert together.staging == Staging(**{name: value for name, (_, value) in STAGED.items()})  # type: ignore[arg-type]


def test_one_option_after_the_other_keeps_what_was_said() -> None:
    first = with_options(DEPLOYED, {"stages": "4", "overlap": "none"})
    both = with_options(first, {"micro_batches": "8"})
    assert (both.staging, both.overlap) == (Staging(4, 8), False)
    assert with_options(both, {"vertical_sync": "no"}) == both


@pytest.mark.parametrize("name", ["stages", "micro_batches", "virtual", "batches"])
@pytest.mark.parametrize("text", ["0", "-1", "2.5", "", "x", "1048577", "9" * 5000, "\u0664"])
def test_counts_are_whole_numbers(name: str, text: str) -> None:
    flag = name.replace("_", "-")
    with pytest.raises(UsageError, match=rf"{flag}=.*must be a whole number from 1 to 1,048,576"):
        with_options(PUBLISHED, {name: text})
    assert with_options(PUBLISHED, {name: "1048576"}).staging is not None


@pytest.mark.parametrize("text", ["some", "1,", "1,-1", "0;2"])
def test_recomputing_stages_are_all_or_numbers(text: str) -> None:
    with pytest.raises(UsageError, match=r"recompute=.*must be a whole number from 0"):
        with_options(DEPLOYED, {"recompute": f"stages:{text}"})
    whole = with_options(DEPLOYED, {"recompute": "stages:all"})
    assert (whole.staging, whole.recompute) == (Staging(recompute="all"), "none")


@pytest.mark.parametrize("text", ["none", "selective", "full", "0", "12"])
def test_what_is_recomputed_needs_no_stages(text: str) -> None:
    found = with_options(DEPLOYED, {"recompute": text})
    assert (found.recompute, found.staging) == (text, None)
    if text != "none":
        assert str(found) == f"deployed, recompute {text}"
        with pytest.raises(UsageError, match=f"recompute={text} has no meaning under the publ"):
            with_options(PUBLISHED, {"recompute": text})


@pytest.mark.parametrize("text", ["all", "0,1", "-1", "some", "1.5", "9999999"])
def test_other_words_are_no_recomputing(text: str) -> None:
    with pytest.raises(UsageError, match=f"recompute={text}: none, selective, full, or a number"):
        with_options(DEPLOYED, {"recompute": text})


def test_options_of_stages_may_have_hyphens_and_no_others() -> None:
    assert [option_name(n) for n in ("micro-batches", "vertical-sync", "batch-size")] == [
        "micro_batches",
        "vertical_sync",
        "batch-size",
    ]


@pytest.mark.parametrize("model", [PUBLISHED, DEPLOYED])
def test_both_models_do_inference(model: Execution) -> None:
    found = with_options(model, {"mode": "inference"})
    assert found.inference
    assert str(found) == f"{model}, inference"
    assert with_options(found, {"mode": "training"}) == model

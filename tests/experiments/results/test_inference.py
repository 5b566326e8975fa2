"""What is said of inference, where it is not what a reader may take it for."""

from typing import Any

import pytest

import accelarray
from accelarray import AccelarrayWarning
from workloads import Builder, load_network

NODE: dict[str, Any] = {"array": "mi300x-cluster", "set": {"nodes": 1}, "mode": "inference"}
LLAMA = "llama-7b:layers=8:seq=16"


def test_planners_of_training_steps_are_told() -> None:
    asked: dict[str, Any] = {"array": "tpu-v3-8", "batch": 64, "mode": "inference"}
    with pytest.warns(AccelarrayWarning, match="^accpar plans a training step"):
        accelarray.simulate("lenet", "accpar", **asked)
    with pytest.warns(AccelarrayWarning, match="^owt and hypar plan a training step"):
        accelarray.compare("lenet", "owt,hypar", **asked)
    accelarray.simulate("lenet", "search", **asked)  # no warning, which is an error in tests


@pytest.mark.parametrize(
    ("precision", "said"), [("bf16", None), ("fp8", '"1 B"'), ("int8", '"1 B"')]
)
def test_weights_that_are_wider_than_their_products(precision: str, said: str | None) -> None:
    step = accelarray.simulate(LLAMA, parallel="dp=8", batch=8, precision=precision, **NODE)
    notes = [one for one in step.warnings if "Weights are stored in 2 bytes" in one]
    assert len(notes) == (said is not None)
    assert all(said in one for one in notes if said)
    if said:
        narrow = {"devices.0.arithmetic.weights": "1 B", **NODE["set"]}
        one = accelarray.simulate(
            LLAMA, parallel="dp=8", batch=8, precision=precision, **{**NODE, "set": narrow}
        )
        assert not [note for note in one.warnings if "Weights are stored" in note]
        assert one.iteration_s < 0.8 * step.iteration_s


def test_the_time_between_batches_is_no_latency() -> None:
    found = accelarray.fit(LLAMA, batch=8, parallel="pp=8", best=1, **NODE)
    assert any("a batch itself takes longer" in str(one) for one in found.tables())
    flat = accelarray.fit(LLAMA, batch=8, parallel="pp=1", best=1, **NODE)
    assert not any("a batch itself takes longer" in str(one) for one in flat.tables())
    swept: dict[str, Any] = {"networks": LLAMA, "batch": 8, "jobs": 1, **NODE}
    both = accelarray.sweep({"parallel": ["pp=8", "tp=8"]}, **swept)
    assert any("a batch itself takes longer" in one for one in both.sentences())
    assert not any(
        "a batch" in one for one in accelarray.sweep("parallel=tp=8", **swept).sentences()
    )


def test_one_token_is_a_sequence_of_a_language_model() -> None:
    assert load_network("llama-7b:layers=2:seq=1").tokens == 1
    item = Builder("item", 1, 1)
    item.embedding("table", 100, 8)
    item.fc("score", 1)
    assert item.build().tokens is None

"""How long training runs of many workers take; a busy machine may break these limits."""

import resource
import time

import pytest

from experiments.studies.training.run import Training
from hardware import load_array
from simulator import DEPLOYED
from simulator.asynchronous.registry import ALGORITHMS
from workloads import load_network

MANY_S, MANY_BYTES, EACH_S = 60.0, 2e9, 20.0
OPTIONS = {"hierarchical": ":algorithm=ring"}
"""One worker a board: there is nothing to be hierarchical about."""


@pytest.mark.parametrize("slow", [(), ("random:0.1:6",)], ids=str)
def test_1024_workers_do_100_iterations_of_ad_psgd(slow: tuple[str, ...]) -> None:
    array = load_array("accpar-homogeneous", ["devices.0.count=1024"])
    network = load_network("vgg16")
    started = time.perf_counter()
    Training(network, "ad-psgd", array, 1024, 100, DEPLOYED, slowdowns=slow).run()
    assert time.perf_counter() - started < MANY_S
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 < MANY_BYTES


@pytest.mark.parametrize("slow", [(), ("random:0.1:6",)], ids=str)
@pytest.mark.parametrize("method", ALGORITHMS)
def test_64_workers_do_1000_iterations(method: str, slow: tuple[str, ...]) -> None:
    array, network = load_array("ethernet-100g"), load_network("vgg16")
    started = time.perf_counter()
    words = method + OPTIONS.get(method, "")
    Training(network, words, array, 64, 1000, DEPLOYED, slowdowns=slow).run()
    assert time.perf_counter() - started < EACH_S

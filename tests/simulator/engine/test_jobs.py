"""Small things about what links are asked to carry."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.engine.jobs import distinct


@given(st.lists(st.integers(-5, 5)))
def test_distinct_values_are_those_of_a_set(values: list[int]) -> None:
    assert distinct(np.array(values, dtype=np.int64)).tolist() == sorted({*values})


def test_of_a_table_too() -> None:
    assert distinct(np.array([[3, 1], [1, 3]])).tolist() == [1, 3]


@pytest.mark.parametrize("array", ["accpar-mixed", "tpu-v3-8", "ring-8"])
def test_a_step_loads_no_masked_arrays(array: str) -> None:
    """Nothing of ours needs them, and they take as long to load as a small step to simulate."""
    script = (
        "import sys, accelarray; accelarray.simulate('lenet', 'owt', array=sys.argv[1])"
        "; print('numpy.ma' in sys.modules)"
    )
    command = [sys.executable, "-c", script, array]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"

import math

from hypothesis import given
from hypothesis import strategies as st

from workloads import Tensor
from workloads.importers.dims import (
    Dims,
    Role,
    broadcast,
    count,
    dim,
    expanded,
    flattened,
    like,
    mixed,
    reshaped,
    shape_of,
    tensor_of,
    written,
)

SAMPLE, CHANNEL, POSITION, COPY = Role


def dims(*parts: tuple[int, Role]) -> Dims:
    return tuple(dim(*part) for part in parts)


@given(st.lists(st.tuples(st.integers(1, 12), st.sampled_from(list(Role))), max_size=5), st.data())
def test_reshaping_keeps_elements_and_fits_the_shape(
    parts: list[tuple[int, Role]], data: st.DataObject
) -> None:
    before = dims(*parts)
    shape: list[int] = []
    left = math.prod(n for n, _ in parts)
    while left > 1 and len(shape) < 6:
        shape.append(data.draw(st.sampled_from([n for n in range(1, left + 1) if left % n == 0])))
        left //= shape[-1]
    shape.append(left)
    after = reshaped(before, shape)
    assert shape_of(after) == tuple(shape)


@given(
    st.lists(st.tuples(st.integers(1, 6), st.sampled_from(list(Role))), min_size=1, max_size=4),
    st.data(),
)
def test_merging_and_splitting_again_gives_the_roles_back(
    parts: list[tuple[int, Role]], data: st.DataObject
) -> None:
    before = dims(*parts)
    cut = data.draw(st.integers(0, len(parts)))
    sizes = [n for n, _ in parts]
    merged = reshaped(before, [math.prod(sizes[:cut]), math.prod(sizes[cut:])])
    assert reshaped(merged, sizes) == before
    for role in Role:
        assert count(merged, role) == count(before, role)


def test_heads_folded_into_the_batch_are_told_from_samples() -> None:
    """(positions, samples, heads * features) as torch's attention has it, to its bmm's operand."""
    before = dims((5, POSITION), (2, SAMPLE), (24, CHANNEL))
    folded = reshaped(before, [5, 6, 8])
    assert folded == (((5, POSITION),), ((2, SAMPLE), (3, CHANNEL)), ((8, CHANNEL),))
    assert tensor_of(folded) == Tensor(24, 5)


def test_a_flattened_map_is_all_channels() -> None:
    flat = reshaped(dims((2, SAMPLE), (16, CHANNEL), (4, POSITION), (4, POSITION)), [2, 256])
    assert mixed(flat)
    assert tensor_of(flattened(flat)) == Tensor(256)
    patches = reshaped(dims((2, SAMPLE), (16, CHANNEL), (4, POSITION), (4, POSITION)), [2, 16, 16])
    assert not mixed(patches)
    assert tensor_of(patches) == Tensor(16, 16)


def test_copies_are_no_elements() -> None:
    keys = dims((2, CHANNEL), (1, POSITION), (7, POSITION), (8, CHANNEL))
    many = expanded(keys, (2, 3, 7, 8))
    assert tensor_of(many) == tensor_of(keys) == Tensor(16, 7)
    assert tensor_of(reshaped(many, (6, 7, 8))) == Tensor(16, 7)
    assert shape_of(expanded(keys, (9, 2, 3, 7, 8))) == (9, 2, 3, 7, 8)


def test_copies_that_are_written_are_elements_or_samples() -> None:
    keys = expanded(dims((2, SAMPLE), (1, POSITION), (7, POSITION), (8, CHANNEL)), (2, 3, 7, 8))
    assert tensor_of(written(keys, 2)) == Tensor(8, 3, 7)
    merged = written(reshaped(keys, (6, 7, 8)), 2)
    assert (tensor_of(merged), count(merged, SAMPLE)) == (Tensor(8, 3, 7), 2)
    wide = reshaped(expanded(dims((7, POSITION), (1, CHANNEL), (8, CHANNEL)), (7, 3, 8)), (7, 24))
    assert tensor_of(written(wide, 2)) == Tensor(24, 7)
    mask = expanded(dims((1, SAMPLE), (7, POSITION)), (2, 7))
    assert tensor_of(written(mask, 2)) == Tensor(1, 7)  # one for each sample


def test_slices_and_paddings_keep_what_dimensions_mean() -> None:
    whole = dims((2, SAMPLE), (16, CHANNEL), (9, POSITION))
    assert tensor_of(like(whole, (2, 4, 11))) == Tensor(4, 11)


def test_element_wise_results_take_the_operand_that_fills_them() -> None:
    row = dims((4, CHANNEL))
    table = dims((7, POSITION), (1, CHANNEL))
    result = broadcast([row, table], (7, 4))
    assert tensor_of(result) == Tensor(4, 7)
    copies = expanded(dims((1, POSITION), (4, CHANNEL)), (7, 4))
    assert tensor_of(broadcast([copies, dims((7, POSITION), (4, CHANNEL))], (7, 4))) == Tensor(4, 7)


def test_sizes_without_a_common_factor_still_add_up() -> None:
    assert shape_of(reshaped(dims((6, CHANNEL), (4, POSITION)), (8, 3))) == (8, 3)
    assert shape_of(reshaped(dims((5, CHANNEL)), (3, 2))) == (3, 2)  # a wrong shape in a file

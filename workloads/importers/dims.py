"""What the dimensions of a tensor stand for: samples, channels or positions.

Files give shapes without meaning. Every dimension is therefore followed as a
product of factors, each with a role, through reshapes and transpositions: of
a (batch * heads, positions, 64) tensor it stays known which factor is which.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from enum import StrEnum

from workloads.tensors import Tensor


class Role(StrEnum):
    """What a factor counts. COPY: repeated without new elements (``expand``)."""

    SAMPLE = "sample"
    CHANNEL = "channel"
    POSITION = "position"
    COPY = "copy"


Dim = tuple[tuple[int, Role], ...]
"""Factors of one dimension, the slowest first; a dimension of one has none."""
Dims = tuple[Dim, ...]


def dim(size: int, role: Role) -> Dim:
    """A dimension of one factor."""
    return ((size, role),) if size != 1 else ()


def size_of(factors: Dim) -> int:
    """Elements along a dimension."""
    return math.prod(size for size, _ in factors)


def shape_of(dims: Dims) -> tuple[int, ...]:
    """The plain shape."""
    return tuple(size_of(factors) for factors in dims)


def count(dims: Sequence[Dim], wanted: Role) -> int:
    """Product of all factors with a role."""
    return math.prod(size for factors in dims for size, role in factors if role is wanted)


def retag(factors: Dim, role: Role) -> Dim:
    """A dimension with another meaning; samples stay samples."""
    return tuple((size, r if r is Role.SAMPLE else role) for size, r in factors)


def area_of(dims: Sequence[Dim]) -> tuple[int, int]:
    """Height and width: positions by dimension, the third and further ones in the width."""
    counted = [n for factors in dims if (n := count([factors], Role.POSITION)) > 1]
    return (counted[0] if counted else 1), math.prod(counted[1:])


def tensor_of(dims: Dims) -> Tensor:
    """Channels and positions of one sample."""
    return Tensor(count(dims, Role.CHANNEL), *area_of(dims))


def mixed(dims: Dims) -> bool:
    """Whether a dimension holds channels and positions at once (a flattened map)."""
    roles = [{role for _, role in factors} for factors in dims]
    return any({Role.CHANNEL, Role.POSITION} <= found for found in roles)


def flattened(dims: Dims) -> Dims:
    """Dimensions of which those that mix channels and positions count as channels."""
    return tuple(retag(d, Role.CHANNEL) if mixed((d,)) else d for d in dims)


def reshaped(dims: Dims, shape: Sequence[int]) -> Dims:
    """The factors in row-major order, dealt out again to the dimensions of ``shape``.

    (positions 5, samples 2, channels 24) as (5, 6, 8), three heads of eight:

        5 takes the positions, 6 the samples and 3 of the channels' 24,
        8 what is left of them: so (5) (2 samples, 3 channels) (8 channels)
    """
    left = [factor for factors in reversed(dims) for factor in reversed(factors)]
    return tuple(tuple(_taken(left, size)) for size in shape)


def _taken(factors: list[tuple[int, Role]], size: int) -> Iterator[tuple[int, Role]]:
    """Takes so many elements off the slowest of a row of factors, which is its last."""
    while size > 1:
        if not factors:  # more elements than there were: a wrong shape in the file
            yield size, Role.POSITION
            return
        first, role = factors.pop()
        part = math.gcd(first, size)
        if part == 1:  # 6 x 4 as 8 x 3: no factor stays whole
            rest = math.prod(n for n, _ in factors) * first // size
            factors[:] = [(rest, role)] if rest > 1 else []
            yield size, role
            return
        if part < first:
            factors.append((first // part, role))
        yield part, role
        size //= part


def swapped(dims: Dims) -> Dims:
    """The last two dimensions the other way round."""
    return dims if len(dims) < 2 else (*dims[:-2], dims[-1], dims[-2])


def like(dims: Dims, shape: Sequence[int]) -> Dims:
    """Dimensions of the same meaning and another size (a slice, a window, a padding)."""
    if len(dims) != len(shape):
        return reshaped(dims, shape)
    return tuple(
        factors if size_of(factors) == size else dim(size, _main_role(factors))
        for factors, size in zip(dims, shape, strict=True)
    )


def reduced(dims: Dims, axes: Sequence[int], shape: Sequence[int]) -> Dims:
    """Dimensions of which some were summed over, or the like: gone, or of size one."""
    gone = {axis % len(dims) for axis in axes} if dims else set()
    left = tuple(factors for axis, factors in enumerate(dims) if axis not in gone)
    return like(left if len(left) == len(shape) else dims, shape)


def _main_role(factors: Dim) -> Role:
    roles = [role for _, role in sorted(factors, reverse=True) if role is not Role.COPY]
    return roles[0] if roles else Role.POSITION


def broadcast(operands: Sequence[Dims], shape: Sequence[int]) -> Dims:
    """The result of an element-wise operation: per dimension the first operand that fills it."""
    result = []
    for back, size in zip(range(len(shape), 0, -1), shape, strict=True):
        fits = [d[-back] for d in operands if len(d) >= back and size_of(d[-back]) == size]
        real = [factors for factors in fits if not any(r is Role.COPY for _, r in factors)]
        result.append((*real, *fits, dim(size, Role.COPY))[0])
    return tuple(result)


def written(dims: Dims, batch: int) -> Dims:
    """What an operator writes: what was repeated is there, as further elements or samples."""
    alone = count(dims, Role.SAMPLE) == 1
    found = []
    for axis, factors in enumerate(dims):
        new = Role.CHANNEL if count([factors], Role.CHANNEL) > 1 else Role.POSITION
        if axis == 0 and alone and size_of(factors) == batch:
            new = Role.SAMPLE
        found.append(tuple((n, new if role is Role.COPY else role) for n, role in factors))
    return tuple(found)


def expanded(dims: Dims, shape: Sequence[int], *, inside: bool = False) -> Dims:
    """Dimensions of one repeated, new ones in front; ``inside``: each element by itself."""
    missing = len(shape) - len(dims)
    found = []
    for factors, size in zip([*[()] * missing, *dims], shape, strict=True):
        times, odd = divmod(size, size_of(factors))
        if odd:
            raise ValueError(f"{shape_of(dims)} cannot be repeated as {tuple(shape)}")
        copies = dim(times, Role.COPY)
        found.append((*factors, *copies) if inside else (*copies, *factors))
    return tuple(found)

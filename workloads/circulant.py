"""Block-circulant weights (CirCNN, Ding et al., MICRO 2017; E-RNN, Li et al., HPCA 2019).

A matrix of n inputs and m outputs is n/b x m/b blocks, each a circulant of b numbers: its
product with a vector is one by elements between the spectra of both. So there are
n m / b weights, kept as spectra (b numbers each, as those of a real circulant), and for
each position

    n/b transforms of inputs, m/b back,   (b/2) log2 b butterflies each, of 10 operations
    (n/b) (m/b) (b/2 + 1) complex multiply-adds, of 8 operations

A butterfly is a complex product (6) and two sums (2 each), in radix 2, without making use of
inputs being real; of spectra the b/2 + 1 numbers that differ are multiplied. 512 to 512
with b = 64: 8 blocks a side, 16 transforms of 1920 operations, 64 x 33 products of 8: 47,616
operations in place of 524,288.
"""

from __future__ import annotations

BUTTERFLY_OPERATIONS = 10
PRODUCT_OPERATIONS = 8


def transform_operations(block: int) -> int:
    """Of one transform of a block, a power of two."""
    return BUTTERFLY_OPERATIONS * (block // 2) * (block.bit_length() - 1)


def macs(
    block: int, groups: int, ins: int, outs: int, in_area: int, out_area: int, kernel: int
) -> tuple[int, int]:
    """Multiply-adds (two operations each) of transforms and of products of spectra, one sample.

    It has so many channels in all groups, positions of input and output, and kernel elements.
    """
    transforms = ins // block * in_area + outs // block * out_area
    pairs = groups * (ins // groups // block) * (outs // groups // block)
    products = pairs * (block // 2 + 1) * kernel * out_area
    return transforms * transform_operations(block) // 2, products * PRODUCT_OPERATIONS // 2

"""Folding: what does the same at the same time is simulated once and counted many times.

Two halves of a split are alike when lowering wrote one program for both: the
same devices under the same sub-plan, meeting in symmetric exchanges. Then
everything in one half happens to the picosecond as in the other, and either
stands for both. The same holds for the cores of a board, which share its work
equally. Nothing else is alike: unlike devices, shares or counts have programs
of their own and stay apart.
"""

from __future__ import annotations

from dataclasses import replace

from simulator.engine.operations import Branch, Leaf, Program


def fold(program: Program) -> Program:
    """The same program with one representative of each class, and its multiplicity."""
    return replace(program, root=_fold(program.root, 1))


def _fold(node: Branch | Leaf, multiplicity: int) -> Branch | Leaf:
    if isinstance(node, Leaf):
        return replace(node, chips=1, cores_per_chip=1, multiplicity=multiplicity)
    first, second = node.halves
    if first is second:
        halves: tuple[Branch | Leaf, ...] = (_fold(first, 2 * multiplicity),)
    else:
        halves = (_fold(first, multiplicity), _fold(second, multiplicity))
    return replace(node, halves=halves, multiplicity=multiplicity)

"""Placements of every type of split, beside the published tables."""

import pytest

from planners.order import SUMMED_IN, Phase
from planners.partition import (
    AS_MADE,
    AS_OPERAND,
    AS_READ,
    AS_TURNED,
    AS_WEIGHT,
    II,
    III,
    IV,
    I,
    PartitionType,
    V,
    boundary,
)
from simulator.sharding.spec import (
    COLUMNS,
    INPUT,
    OPERAND,
    OPERAND_ERROR,
    OUTPUT,
    PARTIAL,
    POSITIONS,
    REPLICATE,
    RESULT,
    ROWS,
    TRANSPOSED,
    WEIGHT,
    Layout,
    Placement,
    by_type,
    tied_changes,
    tied_gradient,
)
from tests.planners.test_partition import SIDE
from workloads import Builder, partition_graph

PLANNERS_WORDS = {I: ROWS, II: COLUMNS, III: REPLICATE, V: POSITIONS}
"""How the planners' tables name a layout: by the type of layer that reads it so."""


@pytest.mark.parametrize(
    ("found", "table"),
    [
        (INPUT, AS_READ),
        (OUTPUT, AS_MADE),
        (OPERAND, AS_OPERAND),
        (WEIGHT, AS_WEIGHT),
        (TRANSPOSED, AS_TURNED),
    ],
)
def test_complete_tensors_lie_as_planners_have_them(
    found: tuple[Placement, ...], table: tuple[PartitionType, ...]
) -> None:
    assert found == tuple(PLANNERS_WORDS[layout] for layout in table)


def test_the_table_of_accpar() -> None:
    """Song et al. 2020, Table 1: types I, II and III of one layer, cut in two."""
    results = RESULT[Phase.FORWARD], RESULT[Phase.BACKWARD], RESULT[Phase.GRADIENT]
    table = {
        type_: tuple(one[type_] for one in (INPUT, WEIGHT, OUTPUT, *results))
        for type_ in (I, II, III)
    }
    assert table == {
        I: (ROWS, REPLICATE, ROWS, ROWS, ROWS, PARTIAL),
        II: (COLUMNS, ROWS, REPLICATE, PARTIAL, COLUMNS, ROWS),
        III: (REPLICATE, COLUMNS, COLUMNS, COLUMNS, PARTIAL, COLUMNS),
    }


@pytest.mark.parametrize("phase", RESULT)
def test_sums_are_partial_where_the_papers_say(phase: Phase) -> None:
    partial = [type_ for type_ in PartitionType if RESULT[phase][type_] == PARTIAL]
    assert partial == list(SUMMED_IN[phase])


def test_groups_leave_no_sums_and_positions_only_where_all_are_summed() -> None:
    assert all(RESULT[phase][IV] == COLUMNS for phase in RESULT)
    assert RESULT[Phase.GRADIENT][V] == OPERAND_ERROR[V] == PARTIAL
    assert RESULT[Phase.FORWARD][V] == RESULT[Phase.BACKWARD][V] == POSITIONS


def lacks(held: Placement, wanted: Placement, share: float) -> float:
    """What a half wants and has not, as a fraction of the tensor; both cut with its share."""
    wants = 1.0 if wanted == REPLICATE else share
    if held in (REPLICATE, wanted):
        return 0.0
    return wants - wants * share


@pytest.mark.parametrize("producer", PartitionType)
@pytest.mark.parametrize("consumer", PartitionType)
@pytest.mark.parametrize("part", range(SIDE + 1))
def test_boundaries_are_the_papers(
    producer: PartitionType, consumer: PartitionType, part: int
) -> None:
    """AccPar's table of inter-layer communication (at equal shares HyPar's Table 2)."""
    share = part / SIDE
    made, read = OUTPUT[producer], INPUT[consumer]
    moved = lacks(made, read, share), lacks(read, made, share)
    assert moved == pytest.approx(boundary(producer, consumer, share))


def test_an_index_that_a_tensor_has_not_is_replicated_or_summed() -> None:
    assert by_type("bip")[III] == REPLICATE
    assert by_type("bip", made=True)[III] == PARTIAL
    assert by_type("oi")[II] == COLUMNS


@pytest.mark.parametrize("user", PartitionType)
@pytest.mark.parametrize("owner", PartitionType)
def test_a_weight_that_is_used_twice_moves_only_between_unlike_cuts(
    user: PartitionType, owner: PartitionType
) -> None:
    net = Builder("tied", 8, 1)
    net.flatten("flat")
    net.fc("one", 8)
    net.fc("two", 8)
    graph = partition_graph(net.build())
    there, back = tied_changes(graph, 1)
    types = owner, user
    cuts = {WEIGHT[user], WEIGHT[owner]}
    for held, wanted in (there, back):
        moves = held.on(types) not in (REPLICATE, wanted.on(types))
        assert moves is (len(cuts) == 2 and REPLICATE not in cuts)
    alone = user in (I, V) and owner not in (I, V)
    assert (tied_gradient(1, 0).on(types) == PARTIAL) is alone


def test_a_spec_has_a_placement_for_each_level() -> None:
    levels = [(I, III), (II, V)]
    assert [Layout(0, OUTPUT).on(types) for types in levels] == [ROWS, REPLICATE]
    assert [Layout(1, RESULT[Phase.GRADIENT]).on(types) for types in levels] == [COLUMNS, PARTIAL]

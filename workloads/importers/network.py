"""From a model in neutral terms to a network: every verb's translation, in one table."""

from __future__ import annotations

import math
from collections.abc import Callable

from workloads.importers import gathers, matmuls, windows
from workloads.importers.assembler import LEARNED, Assembler
from workloads.importers.neutral import OF_PARAMETERS, Constant, Model, ModelOperation
from workloads.network import Network
from workloads.tensors import INPUT, NetworkError, Tensor

VERBS: dict[str, Callable[[Assembler, ModelOperation], None]] = {
    "conv": windows.conv,
    **dict.fromkeys(("max_pool", "avg_pool"), windows.pool),
    "mean": windows.mean,
    "matmul": matmuls.matmul,
    "einsum": matmuls.einsum,
    "attention": matmuls.attention,
    "experts": matmuls.experts,
    **dict.fromkeys(("embedding", "embedding_bag"), gathers.embedding),
    "index": gathers.index,
    **dict.fromkeys(("lstm", "gru"), windows.cell),
    **dict.fromkeys(("batch_norm", "relu", "softmax"), Assembler.unary),
    **dict.fromkeys(("add", "mul", "concat"), Assembler.join),
    **dict.fromkeys(("reshape", "transpose", "expand", "slice", "select"), Assembler.view),
    "other": Assembler.other,
}


PRODUCTS = ("conv", "matmul", "einsum", "attention", "lstm", "gru")
"""Verbs of layers with products; of samples, as long as one operand is computed."""


def assemble(model: Model) -> Network:
    """The network of a model; raises NetworkError naming the model and the operation."""
    assembler = Assembler(model)
    learned = _learned(model)
    for operation in model.operations:
        where = f"{model.origin}, node {operation.name!r}"
        try:
            _step(assembler, operation, learned)
        except NetworkError as error:
            raise NetworkError(f"{where}: {error}") from None
        except (LookupError, TypeError, ValueError, ArithmeticError) as error:
            # strangers' files may say anything; whatever does not fit ends here
            problem = f"{type(error).__name__}: {error}"
            raise NetworkError(f"{where}: malformed ({problem})") from None
    layers, notes = tuple(assembler.layers), tuple(assembler.notes)
    try:
        return Network(model.name, _input(assembler), layers, model.description, notes)
    except NetworkError as error:
        # what was not understood may be all that there was
        unread = f" ({notes[0]})" if notes else ""
        raise NetworkError(f"{model.origin}: {error}{unread}") from None


def _learned(model: Model) -> set[str]:
    """Copies of what is trained, one for each sample, that products of constants or attention read.

    They are computed from then on, as the queries of Perceiver.
    """
    shapes = {name: one.shape for name, one in model.constants.items()}
    trained = {name for name, one in model.constants.items() if one.trained}
    copies, found = dict[str, set[str]](), set[str]()
    for one in model.operations:
        reads = [*filter(None, one.inputs)]
        of = set[str]().union(*(copies.get(name, ()) for name in reads))
        constant = all(name in shapes for name in reads)
        if one.verb in PRODUCTS and (constant or one.verb == "attention"):
            found |= of
        if not constant:
            continue
        shapes |= one.outputs
        if not trained.isdisjoint(reads):
            trained |= {*one.outputs}
            elements = model.batch * math.prod(shapes[reads[0]])
            copied = (one.output[:1], math.prod(one.output)) == ((model.batch,), elements)
            if copied and (one.verb == "expand" or one.attributes.get("operator") == "repeat"):
                of |= {*one.outputs}
        copies |= dict.fromkeys(one.outputs, of)
    return found


def _step(assembler: Assembler, operation: ModelOperation, learned: set[str]) -> None:
    operands = assembler.operands(operation)
    constants = [value for value in operands if isinstance(value, Constant)]
    if len(constants) == len(operands) and not learned.isdisjoint(operation.outputs):
        assembler.learned(operation)
        return
    if len(constants) == len(operands):
        product = operation.verb in PRODUCTS and any(one.trained for one in constants)
        if product:
            assembler.notes.append(f"{operation.name}: {OF_PARAMETERS}")
        for i, (name, shape) in enumerate(operation.outputs.items()):
            how = "" if product else f"{operation.attributes.get('part', name)} {i}"
            assembler.values[name] = Constant.of(how, shape, constants)
        return
    for name, shape in operation.outputs.items():
        if min(shape, default=1) < 1 and operation.verb != "slice":
            raise NetworkError(f"its output {name!r} is empty: {shape}")
    if note := operation.attributes.get("note"):
        assembler.warn(operation, note)
    VERBS[operation.verb](assembler, operation)


def _input(assembler: Assembler) -> Tensor:
    """The shape in which the first layer that reads the input reads it."""
    for layer in assembler.layers:
        if INPUT in layer.inputs and layer.operator != LEARNED:
            return layer.operands[layer.inputs.index(INPUT)]
    return Tensor(1)

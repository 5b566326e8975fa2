"""Stacks of recurrent layers, as torch has them in one operator."""

from __future__ import annotations

from workloads.importers.neutral import ModelOperation
from workloads.importers.torch.calls import Call, tensor_name


def _not_understood(call: Call) -> ModelOperation:
    note = f"{call.node.target} with a projection is not understood"
    attributes = {"operator": call.kind, "note": note}
    return ModelOperation(call.name, "other", call.all_inputs(), call.outputs, attributes)


def cell(call: Call) -> list[ModelOperation]:
    """A stack of recurrent layers as one operation for each."""
    args = list(call.node.args)
    states, weights, biased, layers = args[1], args[2], args[3], args[4]
    both, first = args[7], args[8]
    states = states if isinstance(states, (tuple, list)) else [states]
    directions = 2 if both else 1
    names = list(call.outputs)
    per = len(weights) // (layers * directions)
    if per > (4 if biased else 2):  # a projection of the state: a third matrix in every layer
        return [_not_understood(call)]
    shape = call.outputs[names[0]]
    hidden = shape[-1] // directions
    source, found = tensor_name(args[0]), []
    for layer in range(layers):
        last = layer == layers - 1
        own = weights[layer * per * directions : (layer + 1) * per * directions]
        inner = f"{call.name}.layer{layer}"
        outputs = dict(call.outputs) if last else {inner: shape}
        reads = (source, *map(tensor_name, own), *map(tensor_name, states if not layer else []))
        found.append(
            ModelOperation(
                inner if layers > 1 else call.name,
                call.kind,
                reads,
                outputs,
                {
                    "hidden": hidden,
                    "directions": directions,
                    "biased": bool(biased),
                    "batch_axis": 0 if first else 1,
                    "split": False,
                },
            )
        )
        source = inner
    return found

"""Types of layers, one class each; every file here is imported, so that its types are known."""

from importlib import import_module
from pkgutil import iter_modules

from workloads.layer_types.base import (
    DIMENSIONS,
    TYPES,
    Dimensions,
    Kept,
    Layer,
    LayerType,
    Operand,
    Role,
    Step,
    layer_type,
    register,
)

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

"""What the tables of a spec are made of: strict models, and quantities with units."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from hardware.quantity import parse_quantity


def quantity(unit: str) -> BeforeValidator:
    """A validator that reads "8 GB/s" as a number of that unit."""
    return BeforeValidator(lambda text: parse_quantity(text, unit))


FlopRate = Annotated[float, quantity("FLOP/s")]
ByteRate = Annotated[float, quantity("B/s")]
Duration = Annotated[float, quantity("s")]
Frequency = Annotated[float, quantity("Hz")]
Efficiency = Annotated[float, Field(gt=0, le=1)]
Bytes = Annotated[float, quantity("B")]
EnergyEach = Annotated[float, quantity("J")]
EnergyPerByte = Annotated[float, quantity("J/B")]
Text = Annotated[str, Field(max_length=2000)]


class Table(BaseModel):
    """Strict: no unknown keys, no conversions but those of quantities."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

"""Steps of networks on GPUs, beside measured ones: described by name, with software's constants."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Annotated, Any

from experiments.output import UsageError
from experiments.studies.case import Case, step_of
from experiments.studies.published_values import shipped_rows
from experiments.validate.section import Section
from hardware import Array, load_array
from hardware.reader import Cells, checked_rows, number, whole
from simulator import usual
from workloads import load_network

SHIPPED = "gpu_steps.csv"
MEMORY = "memory_efficiency"


@dataclass(frozen=True, slots=True)
class Given:
    """One measured step: data parallel over the first ``gpus`` of an array."""

    network: str
    array: str
    settings: tuple[str, ...]
    stack: str
    gpus: int
    batch_per_gpu: int
    step_s: float
    source: str

    @property
    def fitted(self) -> bool:
        """Whether the stack's constants are fitted on it."""
        return self.gpus == 1


@dataclass(frozen=True, slots=True)
class Compared:
    """A measured step, ours, and ours with data sheets alone."""

    given: Given
    device: str
    ours_s: float
    plain_s: float

    @property
    def error(self) -> float:
        """Relative to the measured step, signed."""
        return self.ours_s / self.given.step_s - 1

    @property
    def plain_error(self) -> float:
        """That of data sheets alone."""
        return self.plain_s / self.given.step_s - 1


class GivenCells(Cells):
    """The columns of the table; an empty device, precision or optimizer is the array's own."""

    network: str
    array: str
    device: str
    stack: str
    precision: str
    optimizer: str
    gpus: Annotated[int, whole(1, 1 << 12)]
    batch_per_gpu: Annotated[int, whole(1, 1 << 16)]
    step_ms: Annotated[float, number(1e-6, 1e15)]
    source: str


def shipped() -> tuple[Given, ...]:
    """Return the table that comes with accelarray."""
    return tuple(map(_given, checked_rows(GivenCells, shipped_rows(SHIPPED), UsageError)))


def _given(row: GivenCells) -> Given:
    changes = {
        "precision": row.precision,
        "optimizer": row.optimizer,
        "devices.0.device": row.device,
    }
    return Given(
        row.network,
        row.array,
        tuple(f"{key}={value}" for key, value in changes.items() if value),
        row.stack,
        row.gpus,
        row.batch_per_gpu,
        row.step_ms / 1e3,
        row.source,
    )


def compared(rows: Sequence[Given], progress: Callable[[str], None]) -> Iterator[Compared]:
    """Each measured step, simulated with the stack's constants, and at data sheets' peaks."""
    for row in rows:
        array = load_array(row.array, [*row.settings, f"stack={row.stack}"])
        ((device, _),) = array.group.kinds
        sheet = [f"devices.0.roofline.{key}=1" for key in ("matrix_efficiency", MEMORY)]
        plain = load_array(row.array, [*row.settings, *sheet])
        yield Compared(row, device.name, _step_s(row, array), _step_s(row, plain))
        progress(f"{row.network} on {device.name}")


def _step_s(row: Given, array: Array) -> float:
    part = array.part(0, row.gpus)
    batch = row.gpus * row.batch_per_gpu
    network = load_network(row.network)
    case = Case(network, "data_parallel", part, batch, execution=usual(array))
    return step_of(case)[1].iteration_s


def section(found: Sequence[Compared]) -> Section:
    """A line for each step."""
    rows: list[dict[str, Any]] = [
        {
            "network": case.given.network,
            "GPU": case.device,
            "GPUs": case.given.gpus,
            "batch a GPU": case.given.batch_per_gpu,
            "stack": case.given.stack,
            "use": "calibration" if case.given.fitted else "check",
            "measured [ms]": f"{1e3 * case.given.step_s:.1f}",
            "ours [ms]": f"{1e3 * case.ours_s:.1f}",
            "error": f"{case.error:+.1%}",
            "specs alone": f"{case.plain_error:+.1%}",
        }
        for case in found
    ]
    checks = [case for case in found if not case.given.fitted]
    remarks = (
        f"All {len(found)} rows: median {_median(found):.1%}; {len(checks)} rows of several GPUs, "
        f"on which nothing is fitted: median {_median(checks):.1%}, at most "
        f"{max(abs(case.error) for case in checks):.1%} off.",
        "Fitted: two constants a GPU and stack (products, memory) on its rows of one GPU. Data "
        f"sheets alone: median {median(abs(case.plain_error) for case in found):.1%}.",
    )
    data = [
        asdict(case.given)
        | {"device": case.device, "ours_s": case.ours_s, "error": case.error}
        | {"use": "calibration" if case.given.fitted else "check", "specs_s": case.plain_s}
        for case in found
    ]
    return Section("Measured steps on GPUs, data parallel", rows, remarks, {"gpu_steps": data})


def _median(cases: Sequence[Compared]) -> float:
    return median(abs(case.error) for case in cases)

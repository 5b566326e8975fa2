"""ResNet-50's step on boards described by their units, beside the same by their rooflines."""

from __future__ import annotations

from experiments.output import table, text_of
from experiments.studies.case import Case, step_of
from hardware import load_array
from simulator import DEPLOYED
from workloads import load_network

BATCH = 128
"""A core's."""


def steps(version: str, batch: int = BATCH, network: str = "resnet50") -> tuple[float, float]:
    """Seconds by the roofline and by units, on one board."""
    seconds = []
    for device in (f"tpu-{version}", f"tpu-{version}-units"):
        array = load_array(f"tpu-{version}-8", [f"devices.0.device={device}"])
        case = Case(load_network(network), "data_parallel", array, 8 * batch, execution=DEPLOYED)
        seconds.append(step_of(case)[1].iteration_s)
    return seconds[0], seconds[1]


def main() -> None:
    """Print both boards."""
    rows = []
    for version in ("v2", "v3"):
        roofline_s, units_s = steps(version)
        rows.append(
            {
                "board": f"tpu-{version}-8",
                "roofline": f"{roofline_s:.4f} s",
                "units": f"{units_s:.4f} s",
                "difference": f"{units_s / roofline_s - 1:+z.1%}",
            }
        )
    print(text_of(table(f"ResNet-50, {BATCH} images a core", rows)), end="")


if __name__ == "__main__":
    main()

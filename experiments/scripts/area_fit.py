"""The area model's coefficients and errors, as docs/design.md has them."""

from __future__ import annotations

from dataclasses import asdict

from experiments.output import table, text_of
from experiments.studies.areas import RULES, designs, fit, held_out, missed


def main() -> None:
    """Print both tables."""
    area = fit(designs())
    fitted = [{"of each": name, "um2": f"{value:.4f}"} for name, value in asdict(area).items()]
    misses = [missed(area, designs(), "none: the fit itself"), *map(held_out, RULES)]
    rows = [
        {
            "held out": miss.rule,
            "designs": miss.designs,
            "median": f"{miss.median:.1%}",
            "nine in ten": f"{miss.nine_in_ten:.1%}",
            "worst": f"{miss.worst:.1%}",
        }
        for miss in misses
    ]
    print(text_of(table("Fit on all designs", fitted), table("Relative error", rows)), end="")


if __name__ == "__main__":
    main()

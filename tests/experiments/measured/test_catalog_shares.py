"""The shares of peak in the catalog's stacks are those that the calibration rows give today."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.cli import main
from hardware import catalog_names
from hardware.spec import load_settings

ROOT = Path(__file__).parents[3]
ROWS = ROOT / "experiments" / "published" / "large_models_calibration.csv"
FITTED = (
    "fitted on the calibration rows that accelarray papers validate --rows takes by default: of "
)


@pytest.mark.slow
def test_catalog_shares_are_fitted_ones(tmp_path: Path) -> None:
    """Each source says of which chip and format a share is, and whether the stack's own."""
    out = tmp_path / "found.json"
    main(["papers", "validate", "--rows", str(ROWS), "--jobs", "2", "--output", str(out)])
    fitted = json.loads(out.read_text())["constants"]
    checked = 0
    for name in catalog_names("stack"):
        settings = load_settings(name, "stack").settings
        for key, entry in settings.items():
            if not key.startswith("chips.") or not entry.source.startswith(FITTED):
                continue
            chip, _, rest = entry.source.removeprefix(FITTED).partition(" in ")
            format_, _, whose = rest.partition(", ")
            if whose.startswith("of all stacks"):
                factor = 1.0
            elif f"{name} on {chip}" in fitted:
                factor = fitted[f"{name} on {chip}"]
            else:
                continue  # as its parent's, which is checked
            share = fitted[f"{chip} {format_}"] * factor
            assert entry.value == pytest.approx(share, abs=0.006), f"{name}: {key}"
            checked += 1
    assert checked > 15

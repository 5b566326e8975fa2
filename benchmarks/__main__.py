"""Run every benchmark: ``python -m benchmarks [RESULTS.json [TABLE.csv]]``.

Writes pytest-benchmark's JSON, then a table of it (to the terminal without a
second file name).
"""

import csv
import io
import json
import platform
import sys
from pathlib import Path
from typing import Any

import pytest

PLAIN = str.maketrans({"_": " ", "[": ": ", "-": ", ", "]": None})


def table(results: dict[str, Any]) -> str:
    """As CSV: least time, records a second, peak memory."""
    file = io.StringIO()
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(("benchmark", "seconds", "records", "peak memory [MB]", "million timeouts"))
    for bench in results["benchmarks"]:
        least, extra = bench["stats"]["min"], bench["extra_info"]
        name = bench["name"].removeprefix("test_").translate(PLAIN)
        keys = ("records", "peak memory MB", "million timeouts")
        rows.writerow((name, f"{least:.3g}", *(extra.get(key, "") for key in keys)))
    return file.getvalue()


def main(results: str = "benchmarks.json", path: str | None = None) -> int:
    """Run, then write the table."""
    folder = str(Path(__file__).parent)
    code = pytest.main(
        [folder, "-q", "-s", "--dist=no", "--benchmark-enable", f"--benchmark-json={results}"]
    )
    data = json.loads(Path(results).read_text())
    cpu = data["machine_info"]["cpu"]
    made = f"{cpu.get('brand_raw', platform.machine())}, {cpu['count']} cores"
    text = f"# least of several rounds, {made}, Python {platform.python_version()}\n{table(data)}"
    if path:
        Path(path).write_text(text)
    else:
        print(text)
    return int(code)


if __name__ == "__main__":
    if any(word.startswith("-") for word in sys.argv[1:]):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))

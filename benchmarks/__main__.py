"""Run every benchmark: ``python -m benchmarks [RESULTS.json [TABLE.md]]``.

Writes pytest-benchmark's JSON, then a table of it (to the terminal without a
second file name).
"""

import json
import platform
import sys
from pathlib import Path
from typing import Any

import pytest

PLAIN = str.maketrans({"_": " ", "[": ": ", "-": ", ", "]": None})


def table(results: dict[str, Any]) -> str:
    """A Markdown table: least time, records a second, peak memory."""
    head = ("benchmark", "time", "records", "records/s", "peak memory", "million timeouts")
    lines = [f"| {' | '.join(head)} |", "|---|--:|--:|--:|--:|--:|"]
    for bench in results["benchmarks"]:
        least, extra = bench["stats"]["min"], bench["extra_info"]
        name = bench["name"].removeprefix("test_").translate(PLAIN)
        records = f"{extra['records']:,}" if "records" in extra else ""
        rate = f"{extra['records'] / least / 1e6:.2f} M" if "records" in extra else ""
        memory = f"{extra['peak memory MB']} MB" if "peak memory MB" in extra else ""
        bare = extra.get("million timeouts", "")
        lines.append(f"| {name} | {duration(least)} | {records} | {rate} | {memory} | {bare} |")
    return "\n".join(lines) + "\n"


def duration(seconds: float) -> str:
    """Three digits with a fitting unit."""
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


def main(results: str = "benchmarks.json", markdown: str | None = None) -> int:
    """Run, then write the table."""
    folder = str(Path(__file__).parent)
    code = pytest.main(
        [folder, "-q", "-s", "--dist=no", "--benchmark-enable", f"--benchmark-json={results}"]
    )
    data = json.loads(Path(results).read_text())
    cpu = data["machine_info"]["cpu"].get("brand_raw", platform.machine())
    text = (
        f"Least of several rounds, {cpu}, {data['machine_info']['cpu']['count']} cores, "
        f"Python {platform.python_version()}.\n\n{table(data)}"
    )
    if markdown:
        page = Path(markdown)
        head = page.read_text().partition("<!-- table -->")[0] if page.exists() else ""
        page.write_text(f"{head}<!-- table -->\n\n{text}")
    else:
        print(text)
    return int(code)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

"""What ``validate`` says of all that is measured, run once in a process."""

import contextlib
import functools
import io
import json
from typing import Any

from experiments.cli import main


@functools.cache
def validated() -> Any:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(["validate", "--format", "json"]) == 0
    return json.loads(out.getvalue())

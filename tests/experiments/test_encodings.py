"""Output on terminals of any encoding."""

import codecs
import os
import subprocess
import sys

import pytest

from experiments.encodings import HANDLER, PLAIN, write_anywhere


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-8"])
@pytest.mark.parametrize(
    "command", [["list", "planners"], ["--help"], ["show", "tpu-v3"], ["show", "no-such-thing"]]
)
def test_no_encoding_is_too_small(encoding: str, command: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "experiments.cli", *command],
        env=os.environ | {"PYTHONIOENCODING": encoding},
        capture_output=True,
        check=False,
    )
    text = (done.stdout + done.stderr).decode(encoding)
    assert "Traceback" not in text
    assert done.returncode == (2 if command[-1] == "no-such-thing" else 0)
    if command[0] == "list":
        assert "accpar" in text
        assert ("┃" if encoding == "utf-8" else "+---") in text


def test_what_stands_for_a_character_can_be_written_anywhere() -> None:
    write_anywhere()
    assert "".join(PLAIN.values()).isascii()
    assert "│ 1 \u00d7 2 … ☃".encode("ascii", HANDLER) == b"| 1 x 2 ... ?"
    with pytest.raises(UnicodeDecodeError):
        codecs.decode(b"\xff", "ascii", HANDLER)

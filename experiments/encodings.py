"""Characters that an output should not get (controls), or cannot (not of its encoding)."""

from __future__ import annotations

import codecs
import io
import re
import sys

HANDLER = "accelarray.plain"
PLAIN = (
    dict.fromkeys("─━╌╍┄┅", "-")
    | dict.fromkeys("│┃", "|")
    | dict.fromkeys("┌┐└┘├┤┬┴┼┏┓┗┛┣┫┳┻╋┡┩╇╈┠┨┯┷┿╃╄", "+")
    | {"…": "...", "\u00d7": "x", "\u2013": "-", "\u2014": "-", "\u2212": "-", "µ": "u"}
    | {"\u201c": '"', "\u201d": '"', "\u2018": "'", "\u2019": "'", "•": "*", "→": "->"}
    | {"≥": ">=", "≤": "<="}
)
"""What stands for a character that cannot be written."""


def plain(error: UnicodeError) -> tuple[str, int]:
    """A codec's error handler: characters that an encoding has not, in those that all have."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(PLAIN.get(char, "?") for char in lacking), error.end


CONTROLS = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]|\r(?!\n)"
)
"""What steers a terminal or turns the direction of text; not line ends and tabs."""


def legible(text: str) -> str:
    r"""Names come from strangers' files: every control character as its escape, ``\x1b``."""
    return CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def one_line(text: str) -> str:
    r"""The same with line ends as ``\n``, too: no file of a stranger's begins a line of its own."""
    return legible(text).replace("\r", r"\r").replace("\n", r"\n")


def comment(text: str) -> str:
    """A line of a TOML, YAML or CSV file, or of a script, that is no more than a remark."""
    return f"# {one_line(text)}"


def write_anywhere() -> None:
    """Let stdout and stderr take every character, whatever their encoding."""
    codecs.register_error(HANDLER, plain)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=HANDLER)

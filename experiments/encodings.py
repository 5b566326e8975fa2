"""Output on terminals whose encoding lacks some characters: boxes in ASCII, the rest as "?"."""

from __future__ import annotations

import codecs
import io
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


def write_anywhere() -> None:
    """Let stdout and stderr take every character, whatever their encoding."""
    codecs.register_error(HANDLER, plain)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=HANDLER)

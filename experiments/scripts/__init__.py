"""The published tables and figures, one short script each: ``python -m experiments.scripts.NAME``.

Every script takes the folder to write to (default: the current one), and uses
what the command line uses.
"""

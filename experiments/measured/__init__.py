"""Measured training steps of large models beside predicted ones: rows, constants, errors."""

"""Wheels for all platforms from one machine: `python -m scripts.wheels` (docs/decisions/0092)."""

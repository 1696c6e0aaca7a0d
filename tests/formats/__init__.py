"""Tests of lplab.formats; the helpers are probes.py (inputs), exact.py (Fractions) and exhaustive.py (all float32)."""

"""Tests of lplab.arithmetic; a package, so that its files can share the operands."""

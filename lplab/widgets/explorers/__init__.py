"""Explorers, one module each: a state whose fields have controls, its figure and its sentence, and the widget."""

from . import bill_explorer as bill_state  # their earlier names, which lab 12 imports
from . import edge_explorer as edge_state

__all__ = ["bill_state", "edge_state"]

"""Explorers, one module each: a state whose fields have controls, its figure and its sentence, and the widget."""

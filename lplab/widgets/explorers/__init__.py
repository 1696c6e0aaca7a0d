"""The explorers: controls beside figures, each in two modules, the state (no widgets) and the widget."""

"""Figures that change in place, and buttons that train and draw while they train."""

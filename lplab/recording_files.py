"""The former name of :mod:`lplab.recordings.magnitudes`, for notebooks that use it."""

from lplab.recordings.magnitudes import BINS, LOWEST, Magnitudes, Recording, recorded

__all__ = ["BINS", "LOWEST", "Magnitudes", "Recording", "recorded"]

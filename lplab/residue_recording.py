"""The former name of :mod:`lplab.recordings.adacomp`, for notebooks that use it."""

from lplab.recordings import residue_recording

__all__ = ["residue_recording"]

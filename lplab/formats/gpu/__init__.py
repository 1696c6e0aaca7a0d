"""Rounding on a GPU: the word functions of :mod:`lplab.formats`, compiled by Triton, one pass over memory.

``compiler`` binds word functions to Triton, ``shells`` has the kernels, which know memory alone, and ``launch`` chooses
a kernel and runs it. Triton is imported with the first tensor on a GPU. Where Triton is not installed, or
``LPLAB_NO_TRITON=1`` is set, PyTorch's own operations compute the same bits.
"""

"""The fast implementations of rounding, all with the bits of :mod:`lplab.formats.reference`.

``array_kernels`` works on whole numpy or torch arrays, ``block_rounding`` adds shared scales; ``numba_kernels`` and
``numba_nearest`` hold the compiled loops, ``table_kernels`` and ``nearest_kernels`` prepare their arguments, and
``kernel_selection`` decides which loop serves which format.
"""

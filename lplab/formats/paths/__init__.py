"""The fast implementations of rounding, all with the bits of :mod:`lplab.formats.reference`.

``prepared`` is the way in: a format, a rounding and a dtype, decided once, and the loop that rounds. ``array_kernels``
works on whole numpy or torch arrays, ``block_rounding`` adds shared scales. ``numba_kernels`` and ``numba_nearest`` are
the compiled loops; ``grid_kernels``, ``nearest_kernels``, ``table_kernels`` and ``block_kernels`` bind their constants,
and ``kernel_selection`` decides which loop serves which format.
"""

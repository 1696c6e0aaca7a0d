"""The fast implementations of rounding, all with the bits of :mod:`lplab.formats.reference`.

The rules stand in :mod:`lplab.formats.words`. ``grid_rules`` and ``table_rules`` say which of them serves which format,
and with which constants. ``array_kernels`` binds them to whole numpy or torch arrays, and ``block_rounding`` adds
shared scales. ``numba_compile`` binds them to numba, and ``numba_kernels`` has the loops over memory.
``kernel_selection`` decides which loop serves, and when loading it pays.
"""

"""The compressors as operations of PyTorch on the device of the gradient: no copy to the host but of scalars.

The numpy generators of :mod:`lplab.compression` are the reference. The generators here yield the same requests with
tensors in place of arrays, and the tests compare each message, average and state bit by bit. ``steps.py`` has the
table of compressors; a compressor that is not in it runs its numpy generator on the host.

The same bits on each device need operations that promise them. Integers, comparisons, ``argmax`` and stable sorts do.
A float32 value is computed by single additions, products, quotients and roots, which IEEE 754 rounds exactly; no
kernel fuses two of them. Sums of many values have no fixed order, so :mod:`~lplab.compression.tensors.selection` uses
one only where every order gives the same float32 result. The matrix products of PowerSGD have the reference's bits on
CPUs alone.

This package needs PyTorch.
"""

from lplab.compression.tensors.state import TensorState, tensor_state
from lplab.compression.tensors.steps import has_tensor_steps, tensor_steps

__all__ = ["TensorState", "has_tensor_steps", "tensor_state", "tensor_steps"]

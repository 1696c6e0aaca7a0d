"""im2col: a convolution as a matrix product, with the input patch of every output position as a column.

This module imports torch.
"""

from __future__ import annotations

import torch
from torch.nn import functional


def im2col(
    x: torch.Tensor,
    kernel: tuple[int, int],
    stride: tuple[int, int] = (1, 1),
    padding: tuple[int, int] = (0, 0),
    dilation: tuple[int, int] = (1, 1),
) -> torch.Tensor:
    """The patches of images as columns for :func:`lplab.arithmetic.matmul`, in a single copy.

    Args:
        x: [batch, channels, height, width], any float type.
        kernel, stride, padding, dilation: as in ``torch.nn.functional.unfold``; each for height and width.

    Returns:
        [channels · kernel height · kernel width, batch · positions], rows and positions in the order of ``unfold``. A
        convolution is ``matmul(weight.flatten(1), im2col(x, …), …)``, its weight gradient ``matmul(dy, columns.T)``,
        which sums image by image and position by position.

    Raises:
        ValueError: x has not four dimensions, or the kernel is larger than the padded image.

    >>> x = torch.arange(9.0).reshape(1, 1, 3, 3)
    >>> im2col(x, (2, 2))
    tensor([[0., 1., 3., 4.],
            [1., 2., 4., 5.],
            [3., 4., 6., 7.],
            [4., 5., 7., 8.]])
    """
    if x.ndim != 4:
        raise ValueError(f"im2col takes images as [batch, channels, height, width], got shape {tuple(x.shape)}")
    padded = functional.pad(x, (padding[1], padding[1], padding[0], padding[0]))
    reach = [step * (size - 1) + 1 for size, step in zip(kernel, dilation, strict=True)]
    if padded.shape[2] < reach[0] or padded.shape[3] < reach[1]:
        raise ValueError(
            f"a kernel that reaches over {reach} is larger than the padded image, {tuple(padded.shape[2:])}"
        )
    seen = padded.unfold(2, reach[0], stride[0]).unfold(3, reach[1], stride[1])[..., :: dilation[0], :: dilation[1]]
    batch, channels, height, width = seen.shape[:4]  # [batch, channels, height, width, kernel height, kernel width]
    rows = channels * kernel[0] * kernel[1]
    return seen.permute(1, 4, 5, 0, 2, 3).reshape(rows, batch * height * width)

"""Comparisons of the GPU's path with numpy's, which tests/interpreted.py runs."""

from itertools import product

import numpy as np
import torch

from lplab.compression import AdaComp
from lplab.compression.adacomp import adacomp_select
from tests.interpreted import launches

SETTINGS = {
    "as in the paper": {},
    "signs of H": {"sign_of": "H", "scale_factor": 3.0},
    "bins of zeros are sent": {"zero_bins": "all"},
    "bins of zeros are sent by H": {"zero_bins": "all", "sign_of": "H"},
    "at least one of each bin": {"always_one": True, "scale_factor": 1.5},
    "local selection": {"scale_factor": 1.0, "scale_over": "nonzero"},
}


def select(name: str, device: str, count: int) -> None:
    """The choice in bins of several lengths, none of which divides the layer; with zeros, ties and special numbers."""
    rng, settings = np.random.default_rng(0), AdaComp(**SETTINGS[name])
    for bin, has_specials in product((1, 7, 50, 500), (False, True)):
        residual, gradient = (rng.standard_normal(7 * count + 1).astype(np.float32) for _ in range(2))
        residual[100:200], gradient[100:200] = 0, -0.0
        residual[300:400] = gradient[300:400] = rng.integers(-2, 3, 100)
        gradient[400:450] = -residual[400:450]
        gradient[900] = 1e-42
        if has_specials:  # the scale is one of them, too
            residual[500], gradient[501] = np.inf, np.nan
        with np.errstate(invalid="ignore"):
            want = adacomp_select(residual, gradient, settings, bin)
        tensors = [torch.from_numpy(each).to(device) for each in (residual, gradient)]
        with launches() as names:
            got = adacomp_select(*tensors, settings, bin)
        assert names == ["select"]
        for field in ("scale", "indices", "negative", "residual"):
            of_gpu, of_numpy = np.asarray(getattr(got, field).cpu()), np.asarray(getattr(want, field))
            np.testing.assert_array_equal(of_gpu, of_numpy)
            np.testing.assert_array_equal(np.signbit(of_gpu), np.signbit(of_numpy))
        tensors[1] = torch.stack([tensors[1], tensors[1]], 1)[:, 0]  # not contiguous: array operations
        assert torch.equal(adacomp_select(*tensors, settings, bin).indices, got.indices)

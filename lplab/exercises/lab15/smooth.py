"""Exercise 15.2: smoothing, which moves the outliers of a layer's inputs into its weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from lplab.exercises.checks.close import TOLERANCE, rounded_text
from lplab.exercises.checks.numbers import decimal, table_text
from lplab.exercises.model.exercise import Args, Example, Exercise, Finding, Property, mistake
from lplab.exercises.model.forms import SameShapes
from lplab.exercises.student_figures import as_array, read_results, student_figure
from lplab.quantizers import WeightGrid, smoothing_factors


def smooth(x, w, alpha):
    """The inputs x [tokens, inputs] and the weights w [outputs, inputs] after smoothing, whose product is the same."""
    x_max = np.maximum(np.abs(x).max(axis=0), 1e-5)
    w_max = np.maximum(np.abs(w).max(axis=0), 1e-5)
    factors = x_max**alpha / w_max ** (1 - alpha)
    return x / factors, w * factors


X_MAX, W_MAX = "np.maximum(np.abs(x).max(axis=0), 1e-5)", "np.maximum(np.abs(w).max(axis=0), 1e-5)"
FACTORS, RESULT = "x_max**alpha / w_max ** (1 - alpha)", "x / factors, w * factors"


def matrix(*rows: Sequence[float]) -> np.ndarray:
    """A matrix as float64."""
    return np.array(rows, np.float64)


def layer(seed: int, tokens: int, outputs: int, inputs: int, outlier: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and weights of several sizes, where one input is larger than the others: float64."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(tokens, inputs)) * np.exp2(rng.integers(-2, 3, inputs))
    w = rng.normal(size=(outputs, inputs)) * np.exp2(rng.integers(-4, 1, inputs))
    x[:, inputs // 2] *= -outlier
    return x, w


def cases() -> list[Args]:
    """One to 40 tokens, square and other shapes, with and without an outlier, inputs and weights that are zero."""
    shapes = ((1, 1, 1), (1, 2, 3), (4, 3, 2), (5, 5, 5), (40, 3, 8), (2, 30, 7))
    found: list[Args] = []
    for seed, shape in enumerate(shapes):
        found += [(*layer(seed, *shape, outlier), alpha) for outlier in (1.0, 100.0) for alpha in (0.0, 0.25, 0.5, 0.85, 1.0)]
    x, w = layer(17, 4, 3, 5)
    zero = np.arange(5) == 1
    found += [(np.where(zero, 0.0, x), w, alpha) for alpha in (0.25, 0.5, 1.0)]
    return [*found, (x, np.where(zero, 0.0, w), 0.5), (1e-7 * x, w, 0.5)]


@cache
def recorded(part: str) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and weights of a layer of SmolLM2: float64 [32 tokens, inputs], [32 outputs, inputs]."""
    from lplab.recordings import language_model_recording

    layer = language_model_recording().layers[part]
    (w, *_) = layer.weights.values()
    return layer.inputs[:TOKENS].astype(np.float64), w[:OUTPUTS].astype(np.float64)


TOKENS, OUTPUTS = 32, 32
PARTS = {"before attention": "blocks.12.attention", "before the down projection": "blocks.11.mlp"}


def real_calls() -> list[Args]:
    """Layers of a language model, one of them with an input that is thousands of times as large as the others."""
    return [(*recorded(part), alpha) for part in PARTS.values() for alpha in (0.5, 0.85)]


def the_product_stays(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
    """Whether the product stays, and whether the largest inputs are those of the library's factors."""
    for args, (x, w) in zip(calls, results, strict=True):
        before, after = args[0] @ args[1].T, x @ w.T
        off = float(np.abs(after - before).max() / np.abs(before).max())
        if not off <= 1e-9:
            return Finding(f"In a layer of a language model the product changes by {off:.2g} of its largest number.", args)
        top = np.abs(args[0]).max(0) / smoothing_factors(np.abs(args[0]).max(0), np.abs(args[1]).max(0), args[2])
        if not np.allclose(np.abs(x).max(0), top, rtol=1e-9, atol=0):
            return Finding("In a layer of a language model the largest inputs are not those of the library's factors.", args)
    return None


def show(args: Args) -> str:
    """Small matrices in full."""
    x, w, alpha = args
    if max(x.size, w.size) > 6:
        return f"x {x.shape[0]} × {x.shape[1]}, w {w.shape[0]} × {w.shape[1]}, alpha = {decimal(alpha)}"
    return f"x = {table_text(x)}, w = {table_text(w)}, alpha = {decimal(alpha)}"


def why(args: Args, expected: Any) -> str:
    """The factor of the largest input."""
    x, w, alpha = args
    j = int(np.abs(x).max(0).argmax())
    tops = (np.abs(each[:, j]).max() for each in (x, w))
    x_top, w_top = (f"{rounded_text(float(top), 4)}" for top in tops)
    return f"Input {j} has the largest magnitude {x_top}, its weights have {w_top}. Its factor is {rounded_text(float(smoothing_factors(np.abs(x).max(0), np.abs(w).max(0), alpha)[j]), 4)}."


SMOOTH = Exercise(
    id="15.2",
    version=1,
    title="Smoothing",
    goal="Goal 2: move an outlier where it does less harm, without changing the product",
    minutes=10,
    difficulty=1,
    statement=r"""
        A layer computes $x\,w^T$ from inputs `x` [tokens, inputs] and weights `w` [outputs, inputs]. Write `smooth(x, w, alpha)`. It divides each input j by a factor $s_j$, changes the weights of this input so that the product stays, and returns the new x and the new w. SmoothQuant's factors are

        $$s_j=\frac{(\max|x_j|)^{\alpha}}{(\max|w_j|)^{1-\alpha}}$$

        Here $\max|x_j|$ is the largest magnitude of input j over all tokens, and $\max|w_j|$ that of its weights over all outputs. A maximum below `1e-5` counts as `1e-5`.
    """,
    reference=smooth,
    form=SameShapes((("x", 0), ("w", 1))),
    signed_zero=False,
    tolerance=TOLERANCE,
    show=show,
    why=why,
    examples=(
        Example((matrix((100, 1)), matrix((1, 1)), 0.5), "Input 0 is a hundred times as large as its weight. Its factor is √100 = 10, and both become 10."),
        Example((matrix((100, 1)), matrix((1, 1)), 1.0), "With alpha = 1 all inputs have a largest magnitude of 1, and the weight takes all of the outlier."),
        Example((matrix((100, 1)), matrix((0.25, 4)), 0.0), "With alpha = 0 the weights have a largest magnitude of 1, whatever the inputs are."),
        Example((matrix((-64, 1), (4, 2)), matrix((1, 2)), 0.5), "Magnitudes count, over all tokens: 64 and 2. The factors are 8 and 1."),
        Example((matrix((16, 4)), matrix((1, 0.25), (-4, -1)), 0.5), "Magnitudes count, over all outputs: 4 and 1. The factors are √16 / √4 = 2 and 2."),
        Example((matrix((16, 16)), matrix((16, 1)), 0.75), "alpha is not ½, so the two powers differ: 16^¾ = 8, and 16^¼ = 2. The factors are 4 and 8."),
        Example((matrix((0, 1)), matrix((0.1, 1)), 0.5), "Input 0 was always zero. It counts as 1e-5, so its factor is √0.0001 = 0.01."),
    ),
    boundary=cases,
    properties=(Property("in layers of a language model the product stays, with the library's factors", real_calls, the_product_stays),),
    mistakes=(
        mistake("x is multiplied by the factors and w divided: the product stays, but outliers grow", RESULT, "x * factors, w / factors"),
        mistake("w is not changed in return, so the product changes", RESULT, "x / factors, w"),
        mistake("both are divided by the factors, so the product changes", RESULT, "x / factors, w / factors"),
        mistake("alpha and 1 − alpha are exchanged", FACTORS, "x_max ** (1 - alpha) / w_max**alpha"),
        mistake("one power of the quotient: alpha belongs to x alone, 1 − alpha to w", FACTORS, "(x_max / w_max) ** alpha"),
        mistake("the two powers are multiplied, not divided", FACTORS, "x_max**alpha * w_max ** (1 - alpha)"),
        mistake("the maxima of w are not used", FACTORS, "x_max**alpha"),
        mistake("alpha is a factor, not an exponent", FACTORS, "alpha * x_max / ((1 - alpha) * w_max + 1e-300) + 1e-300"),
        mistake("the largest number of x, not the largest magnitude", X_MAX, "np.maximum(x.max(axis=0), 1e-5)"),
        mistake("the largest number of w, not the largest magnitude", W_MAX, "np.maximum(w.max(axis=0), 1e-5)"),
        mistake("the mean magnitude of x, as AWQ takes it, not the maximum", X_MAX, "np.maximum(np.abs(x).mean(axis=0), 1e-5)"),
        mistake("the mean magnitude of w, not the maximum", W_MAX, "np.maximum(np.abs(w).mean(axis=0), 1e-5)"),
        mistake("one maximum for all inputs: every input has the same part of the factor", X_MAX, "np.maximum(np.abs(x).max(), 1e-5)"),
        mistake("one factor for all inputs, from one maximum of x and one of w", X_MAX, "np.maximum(np.abs(x).max(), 1e-5)", W_MAX, "np.maximum(np.abs(w).max(), 1e-5)"),
        mistake("1e-5 is the least factor, not the least maximum", X_MAX, "np.abs(x).max(axis=0)", W_MAX, "np.abs(w).max(axis=0)", FACTORS, "np.maximum(x_max**alpha / w_max ** (1 - alpha), 1e-5)"),
        mistake("a factor for each token, not for each input", X_MAX, "np.maximum(np.abs(x).max(axis=1, keepdims=True), 1e-5)", raises="ValueError"),
        mistake("a maximum for each output, not for each input", W_MAX, "np.maximum(np.abs(w).max(axis=1), 1e-5)", raises="ValueError"),
        mistake("a maximum of zero stays zero: there the result is NaN or infinite", X_MAX, "np.abs(x).max(axis=0)"),
        mistake("1e-5 is added to every maximum", X_MAX, "np.abs(x).max(axis=0) + 1e-5", W_MAX, "np.abs(w).max(axis=0) + 1e-5"),
        mistake("an input that was always zero gets the factor 1", RESULT, "x / np.where(x_max > 1e-5, factors, 1), w * np.where(x_max > 1e-5, factors, 1)"),
    ),
    hints=(
        "Take one token with the inputs 100 and 1, the weights 1 and 1, and alpha = ½. The first factor is 100^½ / 1^½ = 10. The input becomes 10. For the product to stay 100, what must its weight become?",
        "In both matrices, an input is a column. In numpy, .max(axis=0) looks down the columns, and np.abs comes first. np.maximum(a, b) is the larger of two, element by element.",
        "Three steps: the maximum of each column of x and of w, none below 1e-5; the factors, with one exponent for each of the two; then the two matrices. numpy lets a vector of factors act on every row.",
    ),
)


# ---- alpha in two layers of a language model -------------------------------------------------------------------------

ALPHAS = (0.0, 0.2, 0.35, 0.5, 0.65, 0.8, 1.0)


@student_figure("Here the error of two layers in eight bits, as your {name} smooths them, will be drawn")
def draw_alphas(function: Callable[..., Any]) -> Any:
    """A live figure of the error of two layers' outputs against alpha, in eight bits with one scale for all inputs.

    Args:
        function: takes inputs, weights and alpha, and returns both after smoothing.
    """
    from lplab import figures

    calls = [(*recorded(part), alpha) for part in PARTS.values() for alpha in ALPHAS]
    results = read_results(function, calls, SMOOTH.form, two_arrays)
    yours = [error(result, args) for result, args in zip(results, calls, strict=True)]
    return figures.compared_curves(
        [f"{alpha:g}" for alpha in ALPHAS],
        library_errors(),
        dict(zip(PARTS, np.array(yours).reshape(len(PARTS), -1), strict=True)),
        what="error of the outputs (%)",
        name="Two layers in 8 bits",
        along="alpha",
    )


def two_arrays(result: Any) -> tuple[np.ndarray, np.ndarray]:
    """The two arrays of a result; ValueError if there are not two."""
    x, w = result
    return as_array(x), as_array(w)


def error(result: tuple[np.ndarray, np.ndarray], args: Args) -> float:
    """How far the product of the rounded results is off, in percent of the norm of the outputs; NaN for other shapes.

    Eight bits: one scale for all inputs together, one for the weights of each output.
    """
    x, w = result
    if (x.shape, w.shape) != (args[0].shape, args[1].shape) or not (np.isfinite(x).all() and np.isfinite(w).all()):
        return np.nan
    int8, exact = WeightGrid(8, None, "symmetric"), args[0] @ args[1].T
    rounded = int8.quantize(x.reshape(1, -1)).reshape(x.shape) @ int8.quantize(w).T
    return 100 * float(np.linalg.norm(rounded - exact) / np.linalg.norm(exact))


@cache
def library_errors() -> dict[str, np.ndarray]:
    """The errors with the library's factors: float64 [alphas], by layer."""
    found = {}
    for name, part in PARTS.items():
        x, w = recorded(part)
        factors = [smoothing_factors(np.abs(x).max(0), np.abs(w).max(0), alpha) for alpha in ALPHAS]
        found[name] = np.array([error((x / s, w * s), (x, w)) for s in factors])
    return found

"""The student's choice and similarity in figures, with the gradients and residuals of a small network."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from lplab.exercises.notebook import Text
from lplab.exercises.student_figures import results_of

CHUNK, COUNTS = 112, (1, 2, 4, 8, 16, 32, 64)
LAYER = "layers.2.weight"  # 1,280 weights
STEPS, PAIR = 60, 2


@cache
def gradients() -> np.ndarray:
    """First gradients of the last layer of 64 learners, eight digits each: float64 [64, 1280]."""
    from lplab.parallel.gradients import batched_gradients
    from lplab.training import tasks
    from lplab.training.loop.trainer import default_loss
    from lplab.training.threads import torch_threads

    task = tasks.get("mlp")
    with torch_threads(1):
        inputs, targets = task.data(8 * COUNTS[-1], 0)(0)
        batches = list(zip(inputs.chunk(COUNTS[-1]), targets.chunk(COUNTS[-1]), strict=True))
        result = batched_gradients(task.model(0), default_loss, batches, [0] * COUNTS[-1])
    return result.gradients[LAYER].flatten(1).numpy().astype(np.float64)


@cache
def residuals() -> np.ndarray:
    """Residuals (the paper's memories) of the last layer of two learners under ScaleCom, before each step: float64 [60, 2, 1280]."""
    from lplab.compression import ScaleCom
    from lplab.parallel import Learners, shards
    from lplab.training import tasks
    from lplab.training.loop.trainer import default_loss

    task = tasks.get("mlp")
    batches = shards(task.data(8 * PAIR, 0), PAIR)
    learners = Learners(task.model(0), default_loss, batches, ScaleCom(chunk=CHUNK), PAIR)
    recorded = []
    for _ in range(STEPS):
        recorded.append(learners.residuals(LAYER).astype(np.float64))
        learners.one_step()
    return np.stack(recorded)


def draw_choice(function: Callable[..., Any]) -> Any:
    """A live figure of how the sum of a function's messages grows with the learners, or a line that says what it waits for.

    Args:
        function: takes p [learners, elements], a chunk and a step, and returns what each learner sends.
    """
    from lplab import figures, widgets  # drawn in a notebook only
    from lplab.compression.selection import largest_per_chunk
    from lplab.parallel.agreement import union_size

    g = gradients()
    try:
        results = results_of(function, [(g[:n], CHUNK, 0) for n in COUNTS])
        yours = [float((np.asarray(sent, np.float64) != 0).any(axis=0).mean()) for sent in results]
        own = [union_size([largest_per_chunk(row, CHUNK) for row in g[:n]]) / g.shape[1] for n in COUNTS]
        drawn = figures.union_growth(COUNTS, own, yours, own[0])
    except (ValueError, TypeError, IndexError) as problem:
        return Text(f"Here the sum that your {function.__name__} leads to will be drawn (now: {problem}).")
    return widgets.LiveFigure(drawn)


def draw_similarity(function: Callable[..., Any]) -> Any:
    """A live figure of both distances of two learners over a training, or a line that says what it waits for.

    Args:
        function: takes the residuals of two learners [steps, elements] and k, and returns a pair for each step.
    """
    from lplab import figures, widgets
    from lplab.parallel import cosine_distance, hamming_distance

    m = residuals()
    k = -(-m.shape[2] // CHUNK)
    library = [(cosine_distance(pair), hamming_distance(pair, k)) if pair.any() else (np.nan, np.nan) for pair in m]
    try:
        yours = np.asarray(results_of(function, [(m[:, 0], m[:, 1], k)])[0], np.float64)
        drawn = figures.two_distances(np.array(library), yours)
    except (ValueError, TypeError, IndexError) as problem:
        return Text(f"Here both distances as your {function.__name__} finds them will be drawn (now: {problem}).")
    return widgets.LiveFigure(drawn)

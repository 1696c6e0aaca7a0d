"""Exercise 04.4: which layers stay wide."""

from __future__ import annotations

from typing import Any

import numpy as np

from lplab.exercises.checks.numbers import decimal
from lplab.exercises.model.exercise import Args, Example, Exercise, mistake, wrong
from lplab.exercises.model.forms import Numbers

LOW, HIGH = 2, 8


def choose_bits(products, harm, share):
    """Bits of each layer: 8 for the layers to keep wide, which may have that share of all products, and 2 elsewhere."""
    count = len(products)
    best, best_worth = [], (0, 0)
    for pattern in range(2**count):
        wide = [i for i in range(count) if pattern >> i & 1]
        cost = sum(products[i] for i in wide)
        worth = (sum(harm[i] for i in wide), -cost)
        if cost <= share * sum(products) and worth > best_worth:
            best, best_worth = wide, worth
    return [8 if i in best else 2 for i in range(count)]


WORTH, FITS, RESULT = "(sum(harm[i] for i in wide), -cost)", "cost <= share * sum(products)", "[8 if i in best else 2 for i in range(count)]"
GREEDY = """
    def choose_bits(products, harm, share):
        wide, cost = [], 0
        for i in sorted(range(len(products)), key=lambda i: {key}):
            if harm[i] > 0 and cost + products[i] <= share * sum(products):
                wide, cost = wide + [i], cost + products[i]
        return [8 if i in wide else 2 for i in range(len(products))]
"""
EVERY = """
    def choose_bits(products, harm, share):
        import itertools

        best, most = [2] * len(products), 0
        for wide in itertools.product({order}, repeat=len(products)):
            harm_avoided = sum(h * w for h, w in zip(harm, wide))
            if sum(p * w for p, w in zip(products, wide)) <= share * sum(products) and harm_avoided > most:
                best, most = [2 + 6 * w for w in wide], harm_avoided
        return best
"""


def greedy(key: str) -> str:
    """Take layers in an order, as long as they fit."""
    return GREEDY.format(key=key)


def layer_cases() -> list[Args]:
    """Networks of one to ten layers, costs and harms of all sizes, ties and layers that help when rounded."""
    rng = np.random.default_rng(2018)
    cases: list[Args] = [([7], [3], 0.5), ([7], [3], 1.0), ([7], [-1], 1.0), ([2, 2], [1, 1], 0.5)]
    for count in (2, 3, 4, 5, 6, 10):
        for share in (0.0, 0.125, 0.25, 0.5, 1.0):
            for low in (0, -3):
                products = rng.integers(1, 40, count).tolist()
                cases.append((products, rng.integers(low, 20, count).tolist(), share))
    return cases


def check_optimal(args: Args, result: Any) -> str:
    """Whether the bits fit and avoid the most harm, with the fewest products of all that do."""
    products, harm, share = args
    bits = [float(value) for value in result]
    if len(bits) != len(products):
        return f"{len(bits)} numbers for {len(products)} layers."
    if set(bits) - {LOW, HIGH}:
        return f"Every layer has 2 or 8 bits, not {decimal(next(b for b in bits if b not in (LOW, HIGH)))}."
    wide = [i for i, value in enumerate(bits) if value == HIGH]
    cost, avoided, allowed = sum(products[i] for i in wide), sum(harm[i] for i in wide), share * sum(products)
    if cost > allowed:
        return f"Layers with {cost} of {sum(products)} products are kept wide; {decimal(round(allowed, 6))} are allowed."
    best = [i for i, value in enumerate(choose_bits(products, harm, share)) if value == HIGH]
    most, least = sum(harm[i] for i in best), sum(products[i] for i in best)
    if avoided < most:
        fit = f"{'exactly ' * (least == allowed)}{least} of {decimal(round(allowed, 6))} allowed products"
        return f"A harm of {avoided} is avoided with {named(wide)}; of {most} with {named(best)}, and that fits, too ({fit})."
    return "" if cost <= least else f"The same harm is avoided with {least} instead of {cost} wide products: {named(best)}."


def named(layers: list[int]) -> str:
    """Layers by number, from 0.

    >>> named([0, 3]), named([2]), named([])
    ('layers 0, 3', 'layer 2', 'none')
    """
    return f"layer{'s' * (len(layers) > 1)} {', '.join(map(str, layers))}" if layers else "none"


def show(args: Args) -> str:
    """The arguments as Python would print them."""
    return "products = {}, harm = {}, share = {}".format(*args).replace("-", "−")


CHOOSE = Exercise(
    id="04.4",
    version=2,
    title="Which layers stay wide",
    goal="Goal 4: spend bits where they count",
    minutes=15,
    difficulty=2,
    statement=r"""
        PACT leaves the first and the last layer alone. Is that a law? Suppose that you know, for each layer, how much the test loss rises, in thousandths of a bit, if this layer **alone** goes to 2 bits: `harm`, a list (it may be negative, or zero). `products` has the multiplications of each layer. Write
        `choose_bits(products, harm, share)`: a list with 8 for the layers to keep wide and 2 for the others. Wide layers may have at most `share` of all products; among the choices that fit take the one that avoids the most harm in all, and of several such the one with the fewest wide products.
        At most ten layers: you can try all choices.
    """,
    reference=choose_bits,
    form=Numbers(),
    accept=check_optimal,
    show=show,
    examples=(
        Example(([10, 100, 100, 5], [30, 2, 1, 20], 0.125), "The usual case: first and last are cheap and hurt most. Both fit into an eighth."),
        Example(([100, 10, 10, 80], [5, 30, 1, 2], 0.125), "Here a layer in the middle hurts most; the first is expensive and hurts little."),
        Example(([6, 5, 5, 4], [10, 6, 6, 0], 0.5), "10 products are allowed. The most harmful layer alone avoids 10; two others together avoid 12."),
        Example(([10, 1, 9, 20], [12, 2, 9, 0], 0.25), "10 products are allowed. Layer 1 has the most harm for its price, yet layer 0 alone avoids 12, and layers 1 and 2 only 11."),
        Example(([4, 4, 8], [3, 3, 0], 0.5), "Exactly half is allowed, and exactly half is used: “at most”."),
        Example(([3, 3, 3], [5, -2, 0], 1.0), "Everything would fit. But a layer that does not suffer, or even gains, needs no bits."),
        Example(([4, 2, 6], [7, 7, 1], 0.35), "4.2 products are allowed. Layer 0 fits, or layer 1, not both; they avoid the same, so the one with fewer products."),
        Example(([2, 4, 6], [7, 7, 1], 0.35), "The same in the other order: the number of products decides, not the place."),
        Example(([5, 5], [9, 9], 0.25), "Nothing fits: all layers have 2 bits."),
    ),
    boundary=layer_cases,
    mistakes=(
        wrong("the most harmful layers first, as long as they fit", greedy("-harm[i]")),
        wrong("the most harm for a product first, as long as they fit", greedy("-harm[i] / products[i]")),
        wrong("the cheapest layers first, as long as they fit", greedy("products[i]")),
        wrong("the first and the last layer, always", """
            def choose_bits(products, harm, share):
                return [8 if i in (0, len(products) - 1) else 2 for i in range(len(products))]
        """),
        wrong("the first and the last layer, if they fit", """
            def choose_bits(products, harm, share):
                fits = products[0] + products[-1] <= share * sum(products)
                return [8 if fits and i in (0, len(products) - 1) else 2 for i in range(len(products))]
        """),
        mistake("the budget counts layers instead of products", FITS, "len(wide) <= share * count"),
        mistake("there is no budget", FITS, "True"),
        mistake("less than the share instead of at most", FITS, "cost < share * sum(products)"),
        mistake("the share of the narrow layers' products instead of all", FITS, "cost <= share * (sum(products) - cost)"),
        mistake("the share is taken for a number of products", FITS, "cost <= share"),
        mistake("as many products as fit are kept wide, whatever the harm", WORTH, "(cost, 0)"),
        mistake("the least harm is avoided instead of the most", WORTH, "(-sum(harm[i] for i in wide), cost)"),
        mistake("of equal choices the one with more products", "-cost)", "cost)"),
        wrong("of equal choices the first that came, the narrow ones tried first", EVERY.format(order="[0, 1]")),
        wrong("of equal choices the first that came, the wide ones tried first", EVERY.format(order="[1, 0]")),
        mistake("of equal choices whichever came first, the prices forgotten", WORTH, "(sum(harm[i] for i in wide), 0)"),
        mistake("harm is counted by its size: a layer that gains is kept wide", WORTH, "(sum(abs(harm[i]) for i in wide), -cost)"),
        mistake("only one layer is kept wide", FITS, "len(wide) == 1 and cost <= share * sum(products)"),
        mistake("8 and 2 are exchanged", RESULT, "[2 if i in best else 8 for i in range(count)]"),
    ),
    hints=(
        "Take products 6, 5, 5, 4 and a budget of 10. Which sets of layers fit? Taking the most harmful layer first leaves no room for the two that together avoid more.",
        "Ten layers have 1,024 subsets. For each: the sum of its products (does it fit?) and the sum of its harm (is it more than the best so far?).",
        "The skeleton: for pattern in range(2**n): wide = [i for i in range(n) if pattern >> i & 1]; skip it if its products exceed share × sum(products); keep the best by (harm avoided, −products).",
    ),
)

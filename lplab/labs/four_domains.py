"""The figure of the larger experiment on ``domains`` for labs 06, 07, 09 and 10: each shows its own methods."""

from __future__ import annotations

from lplab import figures, widgets


def four_domains(*methods: str) -> widgets.LiveFigure:
    """What some methods lose against float32 in pictures, characters, speech and detection; stored measurements.

    Pictures are learned by a residual network, and by a depthwise one where all these methods were run with it.

    Args:
        methods: of :data:`lplab.claims.papers.domains.METHODS`; all of them by default.

    Raises:
        ValueError: an unknown method.

    >>> four_domains("AdaComp").layout.meta["title"].partition(":")[0]
    'Furthest from no compression'
    """
    from lplab.claims.papers.domains import METHODS, drawn_gaps
    from lplab.claims.papers.domains_large import DEPTHWISE, DOMAINS_LARGE, TESTED

    unknown = [method for method in methods if method not in METHODS]
    if unknown:
        raise ValueError(f"there is no method {', '.join(unknown)}; there are {', '.join(METHODS)}")
    made = drawn_gaps(DOMAINS_LARGE, TESTED, methods or METHODS)
    for name in ("gaps", "bounds"):  # the full name of a panel would run into its neighbour's on a phone
        made[name] = {"depthwise" if domain == DEPTHWISE else domain: rows for domain, rows in made[name].items()}
    height = 126 + 34 * len(methods or METHODS)
    return widgets.LiveFigure(figures.domain_gaps(**made, height=height))

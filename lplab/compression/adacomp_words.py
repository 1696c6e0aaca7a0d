"""What AdaComp asks of each element, in one text for arrays, for tensors and for Triton.

The names that are not defined here come from the namespace that the functions are bound to: ``where`` and ``abs``, and
two flags: ``SIGN_OF_G``, whether signs are those of the sums, and ``ZEROS``, whether bins of zeros are sent.
"""

# mypy: ignore-errors
# ruff: noqa: F821
# (names come from the namespace; the tests compare every bit)


def boosted(total, gradient, extra):
    """H from G = residual + gradient: in H the gradient counts ``extra`` times more."""
    return total + gradient * extra


def is_sent(total, boosted_total, limit):
    """Whether an element is sent: its |H| reaches the largest |G| of its bin."""
    signs = total if SIGN_OF_G else boosted_total
    return (abs(boosted_total) >= limit) & where(limit > 0, signs != 0, ZEROS)


WORDS = ("boosted", "is_sent")

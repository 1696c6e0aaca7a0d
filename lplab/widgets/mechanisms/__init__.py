"""Mechanisms: one idea of each lab that moves under the hand, in notebooks and, without a kernel, on the site.

A mechanism is a value (`mechanism.Mechanism`) and a file of JavaScript beside its module. Both are of one name.
"""

from lplab.lookup import lookup

from . import (
    ball,
    beads,
    bin,
    cache_axis,
    clip,
    coins,
    columns,
    energy_bill,
    hole,
    ladder,
    leash,
    loss_scale,
    octaves,
    rectangle,
    register,
    ring,
    see_saw,
    shared_scale,
    skewed_array,
    stripes,
    turned_outlier,
    union,
)
from .mechanism import Mechanism, MechanismView

# in the order of the labs
_MODULES = (
    hole,
    octaves,
    coins,
    loss_scale,
    beads,
    clip,
    ball,
    register,
    rectangle,
    ladder,
    ring,
    bin,
    union,
    skewed_array,
    energy_bill,
    shared_scale,
    stripes,
    turned_outlier,
    columns,
    see_saw,
    cache_axis,
    leash,
)
MECHANISMS = {module.MECHANISM.name: module.MECHANISM for module in _MODULES}


def mechanism(name: str) -> MechanismView:
    """The mechanism of this name, to be shown in a notebook.

    Raises:
        ValueError: there is none; the message names the closest, or all.

    >>> mechanism("octaves").content["title"]
    'A value on the number line of E4M3'
    """
    return MechanismView(lookup(MECHANISMS, name, "mechanism"))


__all__ = ["MECHANISMS", "Mechanism", "MechanismView", "mechanism"]

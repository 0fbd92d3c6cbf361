"""Pairs of texts as the signature `predict_text` takes them: one string, parted by its first tab.

joined("is it raining?", "take an umbrella")
"""

from __future__ import annotations

_TAB = "\t"


def joined(first: str, second: str) -> str:
    """Both texts in one.

    A tab within the first would end it there. It becomes a space, which has
    the same tokens; those of the second stay.
    """
    return first.replace(_TAB, " ") + _TAB + second

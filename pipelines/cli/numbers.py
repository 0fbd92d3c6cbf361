"""Numbers on the command line.

@click.option("--max-drop", type=Number(0, 100))
"""

from __future__ import annotations

import math
from typing import Any

import click


class Number(click.FloatRange):
    """A number within limits. `nan` is within none, which click's comparisons do not see."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; a usage error where it is none, infinite or out of range."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is no finite number.", param, ctx)
        return number

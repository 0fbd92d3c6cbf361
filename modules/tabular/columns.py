"""Which columns a tabular model sees, and where each lies in the row of floats. No TensorFlow.

layout = columns.layout({"fare": "float32", "company": "string"}, hparams)
layout.numeric, layout.categorical, layout.crosses
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from modules.errors import TrainingError
from modules.hparams.tabular import TabularInputHparams

ROW = "row"
"""The transformed feature that holds all columns."""


def vocabulary(column: str) -> str:
    """Name of the vocabulary that Transform writes of a column, in letters that files and graphs take."""
    plain = (letter if letter.isascii() and letter.isalnum() else f"_{ord(letter):x}_" for letter in column)
    return "column_" + "".join(plain)


@dataclass(frozen=True)
class Layout:
    """Columns in the order in which they lie in the row.

    The row holds one z-score per numeric column, one bucket per numeric column,
    one index per categorical column, one hash bucket per cross.
    """

    numeric: tuple[str, ...]
    categorical: tuple[str, ...]
    crosses: tuple[tuple[str, ...], ...]

    @property
    def width(self) -> int:
        """Floats in a row."""
        return 2 * len(self.numeric) + len(self.categorical) + len(self.crosses)


def layout(dtypes: Mapping[str, str], hparams: TabularInputHparams) -> Layout:
    """Sorts columns by type: texts and named codes are categorical, other numbers numeric.

    Args:
        dtypes: column -> `string`, `int64` or `float32`.
        hparams: the label, and columns to ignore or to take for codes.

    Raises:
        TrainingError: a column that is named is not there, none is left, or a cross has one
            that the model does not see.
    """
    named = {*hparams.categorical, *hparams.ignore, *(name for cross in hparams.crosses for name in cross)}
    for name in sorted(named):
        if name not in dtypes:
            raise TrainingError(
                f"There is no column {name!r}",
                place="model.categorical, model.ignore or model.crosses",
                remedy=f"Columns: {', '.join(sorted(dtypes))}.",
            )
    seen = sorted(set(dtypes) - {hparams.label_feature, *hparams.ignore})
    if not seen:
        raise TrainingError("No column is left for the model to see", place="model.ignore")
    for name in (name for cross in hparams.crosses for name in cross):
        if name not in seen:
            raise TrainingError(
                f"A cross has the column {name!r}, which the model does not see",
                place="model.crosses",
                remedy="Take it out of the cross, or out of model.ignore; the label can be in no cross.",
            )
    categorical = tuple(name for name in seen if dtypes[name] == "string" or name in hparams.categorical)
    return Layout(
        numeric=tuple(name for name in seen if name not in categorical),
        categorical=categorical,
        crosses=hparams.crosses,
    )

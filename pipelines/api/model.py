"""What a run chose to be served, in Python."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from components.native_start import with_tensorflow
from pipelines.api import frames

if TYPE_CHECKING:
    import pandas as pd


class Model:
    """A servable behind one call, whatever its format.

    What it is asked about is a data frame with a column per feature, as `Run.examples` gives it, such as
    `pandas.DataFrame({"image": [Path("cat.jpg").read_bytes()]})`; or serialized tf.train.Examples.
    """

    def __init__(self, folder: Path) -> None:
        with_tensorflow()
        from components.serving import runtimes

        self._runtime = runtimes.load(str(folder))

    @property
    def class_names(self) -> Sequence[str]:
        """In the order of the scores; of a regression none."""
        return self._runtime.servable.class_names

    def scores(self, asked: pd.DataFrame | Sequence[bytes]) -> npt.NDArray[np.float32]:
        """Scores (B, C) of B rows, probabilities in [0, 1]; of a regression its numbers (B,)."""
        records = list(asked) if isinstance(asked, Sequence) else frames.to_examples(asked)
        return np.asarray(self._runtime.predict(records).scores, np.float32)

    def predict(self, asked: pd.DataFrame | Sequence[bytes]) -> list[Any]:
        """The likeliest class of each row; of a regression its number."""
        scores = self.scores(asked)
        if scores.ndim == 1:
            return [float(number) for number in scores]
        return [self.class_names[index] for index in scores.argmax(axis=1)]

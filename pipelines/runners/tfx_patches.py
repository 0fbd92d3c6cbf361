"""What is changed in TFX, in this process only; everything of the kind stands here.

    tfx_patches.keep_heavy_out()        # before TFX is imported
    tfx_patches.verify_cached_outputs() # before a node is launched

Each for TFX 1.21, with the reason; `tests/pipelines/runners/test_look.py`
fails when TFX no longer needs one.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HEAVY = ("tensorflow", "apache_beam", "tensorflow_model_analysis")


def keep_heavy_out() -> bool:
    """Lets TFX's launcher be imported without TensorFlow, Beam and TFMA; for a process that only looks.

    Looking a node up in the cache needs none of them, but `tfx.components`
    imports all three (10 CPU seconds, 800 MB) whichever of its modules is
    asked for. TFX's file system plugins try TensorFlow and do without.

    Returns:
        False where they are imported already, so that there is nothing to gain.
    """
    if any(sys.modules.get(name) is not None for name in HEAVY):
        return False
    import tfx

    empty = types.ModuleType("tfx.components")
    empty.__path__ = [str(Path(path, "components")) for path in tfx.__path__]
    sys.modules["tfx.components"] = empty
    for name in HEAVY:
        sys.modules[name] = None  # type: ignore[assignment]
    return True


def verify_cached_outputs() -> None:
    """Makes cached outputs that are not what was published a miss.

    TFX asks no more than whether the folder of a cached output exists: an
    empty, truncated or edited one is used. Its look-up skips an execution
    whose outputs raise RuntimeError.
    """
    from tfx.orchestration.portable import cache_utils

    from pipelines.runners import payloads

    class Verifying(types.ModuleType):
        """`artifact_utils` as cache_utils sees it."""

        def __getattr__(self, name: str) -> Any:
            return getattr(original, name)

        @staticmethod
        def verify_artifacts(artifacts: Mapping[str, Sequence[Any]]) -> None:
            original.verify_artifacts(artifacts)
            for items in artifacts.values():
                for artifact in items:
                    payloads.verify(artifact)

    original = cache_utils.artifact_utils
    if not isinstance(original, types.ModuleType) or original.__name__ == Verifying.__name__:
        return
    cache_utils.artifact_utils = Verifying(Verifying.__name__)

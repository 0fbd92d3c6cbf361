"""TensorFlow's start without the chatter of its libraries.

with_tensorflow()      # before the first `import tensorflow` of a program that people look at
"""

from __future__ import annotations

import os
import sys
import tempfile


def with_tensorflow() -> None:
    """Imports TensorFlow and looks for devices; what its libraries write to stderr is shown if that fails.

    It is about units that this machine has not, such as a GPU, and comes before any log level of theirs
    holds. Does nothing where TensorFlow is there already.
    """
    if "tensorflow" in sys.modules:
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    sys.stderr.flush()
    saved = os.dup(2)
    with tempfile.TemporaryFile() as kept:
        os.dup2(kept.fileno(), 2)
        try:
            import tensorflow as tf

            tf.config.list_physical_devices()
        except BaseException:
            kept.seek(0)
            os.write(saved, kept.read())
            raise
        finally:
            os.dup2(saved, 2)
            os.close(saved)

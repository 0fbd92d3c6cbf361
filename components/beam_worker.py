"""A Beam worker process that imports TFX before it unpickles any step.

    python -m components.beam_worker        # started by Beam, with its environment variables

TensorFlow Data Validation can be imported only after TFX, which stands in for
a module that tfx_bsl's wheels no longer have; Beam's own worker would import
the former first. Runners that start workers by a command are given this one.
"""

from __future__ import annotations

import sys


def prepare() -> None:
    """Imports TFX, makes batch sizes independent of time, and building pipelines quicker.

    TFX's readers otherwise tune batch sizes by measured time, and a mean over
    batches then differs in its last digits from run to run.
    """
    import tfx.components  # noqa: F401
    from absl import flags
    from tfx_bsl.coders import batch_util  # noqa: F401  (defines the flag)

    from components import beam_introspection

    beam_introspection.install()
    flags.FLAGS(["headrace", "--tfxio_use_byte_size_batching"], known_only=True)


def main() -> None:
    """Entry point of the worker process."""
    prepare()
    from apache_beam.runners.worker import sdk_worker_main

    sdk_worker_main.main(sys.argv)


if __name__ == "__main__":
    main()

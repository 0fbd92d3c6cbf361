"""python -m components.serving.server --model_name=NAME --model_base_path=FOLDER."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from components.native_start import with_tensorflow
from components.serving.server.options import Options, parse


def run(options: Options) -> None:
    """Serves in this process until SIGTERM or SIGINT.

    Raises:
        ServableError: a file, folder or port cannot be used, or the list of models is not valid.
    """
    with_tensorflow()
    import asyncio
    import gc
    import logging

    from components import logs

    if options.log_format == "json":
        logs.write_json_logs()
    else:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    # Its loader for Sessions warns at every load that it is the old one.
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    from components.errors import ServableError
    from components.serving.server.server import serve
    from components.serving.server.status import RequestError

    # What was imported stays. Walking those 400,000 objects at every full collection
    # would stop requests for a quarter of a second each time.
    gc.freeze()
    try:
        asyncio.run(serve(options))
    except RequestError as error:
        raise ServableError(
            f"The list of models cannot be served: {error.message}",
            place=options.model_config_file,
            remedy="Correct it.",
        ) from error


def serve(arguments: Sequence[str]) -> None:
    """The same in a process that was forked for it.

    Args:
        arguments: as on the command line.
    """
    from components.errors import ServableError

    try:
        run(parse(arguments))
    except ServableError as error:
        print(f"Error: {error}", file=sys.stderr)
        raise


def main() -> None:
    """Exits 0 after SIGTERM, 2 where options, files or ports cannot be used."""
    from components.errors import ServableError

    options = parse(sys.argv[1:])
    code = 0
    try:
        run(options)
    except ServableError as error:
        print(f"Error: {error}", file=sys.stderr)
        code = 2
    sys.stdout.flush()
    sys.stderr.flush()
    # TensorFlow's libraries have crashed in the interpreter's shutdown.
    os._exit(code)


if __name__ == "__main__":
    main()

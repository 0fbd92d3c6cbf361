"""A process that imports TFX once and runs `headrace` commands in forked children.

Each command still runs in a process of its own, from arguments to exit code;
only the fifteen seconds of imports are shared. Reads one JSON object a line:
{"args": [...], "cwd": "...", "out": "...", "err": "..."}; answers {"code": N}.
"""

from __future__ import annotations

import json
import os
import signal
import sys

from components import heap


def child(task: dict[str, object]) -> None:
    os.chdir(str(task["cwd"]))
    for name, descriptor in (("out", 1), ("err", 2)):
        file = os.open(str(task[name]), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, descriptor)
    sys.stdout = os.fdopen(1, "w", buffering=1)
    sys.stderr = os.fdopen(2, "w", buffering=1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    from pipelines.cli.main import main

    code = 1
    try:
        main(list(task["args"]))
        code = 0
    except SystemExit as ended:
        code = int(ended.code or 0)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def serve() -> None:
    with heap.importing("pipelines.runners.local"):
        import pipelines.create
        import pipelines.runners.beam
        import pipelines.runners.local  # noqa: F401

    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print must not mix with answers
    print(json.dumps({"ready": True}), file=answers)
    for line in sys.stdin:
        task = json.loads(line)
        pid = os.fork()
        if not pid:
            child(task)
        print(json.dumps({"pid": pid}), file=answers)
        _, status = os.waitpid(pid, 0)
        print(json.dumps({"code": os.waitstatus_to_exitcode(status)}), file=answers)


if __name__ == "__main__":
    serve()

"""A pushed model over files: whole output or none, with a manifest of what was done.

outcome = run(Request(folder, Path("scans"), Path("answers")))
"""

from __future__ import annotations

import json
import secrets
import shutil
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from components.beam_boot import OPTION
from components.bulk import inputs
from components.bulk.inputs import Inputs, Kind
from components.errors import EngineError as WorkerError
from components.errors import UserError, WorkerLostError
from components.serving import manifest
from components.serving.servable import Servable
from modules import contract
from pipelines import engines
from pipelines.beam_stage import Beam
from pipelines.engines import sizing
from pipelines.engines.prepare import FOLDER
from pipelines.errors import EngineError, HeadraceError, InputError, NotFoundError, nearest

MANIFEST = "manifest.json"
_TRIES = 3
"""Of a job that loses workers, as of a node of a run."""


class BulkFailedError(HeadraceError):
    """A bulk run that failed for no reason of the user's."""

    exit_code = 1


@dataclass(frozen=True)
class Request:
    """What to run over what.

    Attributes:
        model: folder of a pushed version.
        source: a file, or a folder of files of one kind.
        output: a folder that does not exist yet, or is empty.
        format: of the output's parts.
        column: of a CSV file, with the text.
        signature: to call; by default the one that takes such files.
        on_bad: fail at the end, leaving no output, or write bad records aside.
        max_bad_fraction: more fail even in quarantine.
        beam: where it runs, and how wide.
        beam_args: further Beam options.
    """

    model: Path
    source: Path
    output: Path
    format: Literal["jsonl", "tfrecord"] = "jsonl"
    column: str = ""
    pair_column: str = ""
    signature: str = ""
    on_bad: Literal["fail", "quarantine"] = "fail"
    max_bad_fraction: float = 0.01
    beam: Beam = field(default_factory=Beam)
    beam_args: Sequence[str] = ()


@dataclass(frozen=True)
class Outcome:
    """What came of it: inputs answered, and bad ones written aside."""

    answered: int
    bad: int
    seconds: float


def run(request: Request) -> Outcome:
    """Runs the model over the files.

    Raises:
        InputError: the files, the output folder or a record cannot be used; there is
            no output then.
        NotFoundError: the model has no such signature.
        BulkFailedError: the model does not load, or Beam failed.
        EngineError: the engine or its workers cannot do it.
    """
    began = time.monotonic()
    try:
        found = inputs.find(request.source)
        servable = manifest.servable_of(request.model)
    except UserError as error:
        raise InputError(error.headline, place=error.place, remedy=error.remedy) from error
    signature = _signature(servable, found.kind, request.signature)
    _check_output(request.output)
    output = request.output.absolute()
    staged = output.with_name(f".{output.name}-{secrets.token_hex(4)}")
    try:
        # Before anything is written; what workers need of us goes into the folder that they must see.
        beam_args = _beam_args(request, found, staged)
        staged.mkdir(parents=True, exist_ok=True)
        outcome = _run(replace(request, beam_args=beam_args), found, servable, signature, staged, began)
        staged.rename(output)
    except BaseException:
        shutil.rmtree(staged, ignore_errors=True)
        raise
    return outcome


def _beam_args(request: Request, found: Inputs, staged: Path) -> list[str]:
    sizes = [sizing.size_of(str(file)) for file in found.files]
    size = None if None in sizes else sum(filter(None, sizes))
    given = engines.for_folder(request.beam, staged, size)
    if request.beam.runner != "local":
        seen = (request.model / manifest.PATH, found.files[0])
        given += [f"--{OPTION}={path.absolute()}" for path in seen]
    return [*given, *request.beam.args, *request.beam_args]


def _answer(job: Any, found: Inputs, beam_args: Sequence[str]) -> None:
    for left in reversed(range(_TRIES)):
        try:
            _answer_once(job, found, beam_args)
            return
        except WorkerLostError as error:
            # Each group of files is answered anew, over what the lost worker wrote of it.
            if not left:
                raise BulkFailedError(
                    f"Bulk inference lost a worker {_TRIES} times",
                    place=job.model,
                    remedy="Look at the workers' logs, first for a lack of memory.",
                ) from error


def _answer_once(job: Any, found: Inputs, beam_args: Sequence[str]) -> None:
    from components.bulk import predict
    from pipelines.runners.beam_pipelines import DEFAULTS, pipeline_maker

    try:
        with pipeline_maker([*DEFAULTS, *beam_args])() as pipeline:
            predict.build(pipeline, job, found)
    except WorkerLostError:
        raise
    except WorkerError as error:
        raise EngineError(error.headline, place=error.place, remedy=error.remedy) from error
    except Exception as error:
        traceback.print_exc()
        # Beam's messages hold the worker's traceback, and end with what happened.
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise BulkFailedError(
            f"Bulk inference failed: {lines[-1][:300]}",
            place=job.model,
            remedy="Check the model and the Beam options; the log has the whole message.",
        ) from error


def _check_output(output: Path) -> None:
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise InputError(
            "The output is there already", place=str(output), remedy="Name a new folder, or an empty one."
        )


def _signature(servable: Servable, kind: Kind, wanted: str) -> str:
    """The signature that takes such files: serialized Examples go to the first."""
    by_kind = {
        "images": contract.SIGNATURE_IMAGE,
        "texts": contract.SIGNATURE_TEXT,
        "examples": servable.signatures[0].name,
    }
    name = wanted or by_kind[kind]
    known = [signature.name for signature in servable.signatures]
    if name not in known:
        raise NotFoundError(
            f"The model has no signature {name!r} for {kind}",
            remedy=f"Name one with --signature. {nearest(name, known)}",
        )
    return name


def _run(
    request: Request, found: Inputs, servable: Servable, signature: str, staged: Path, began: float
) -> Outcome:
    from components.bulk import predict

    (staged / predict.REPORTS).mkdir()
    model = str(request.model.absolute())
    columns = (request.column, request.pair_column)
    base = str(Path.cwd())
    job = predict.Job(model, signature, found.kind, *columns, base, str(staged), request.format)
    _answer(job, found, request.beam_args)
    total = predict.read_reports(staged)
    _check_bad(request, total)
    for apart in (predict.REPORTS, FOLDER):
        shutil.rmtree(staged / apart, ignore_errors=True)
    outcome = Outcome(total.answered, total.bad, time.monotonic() - began)
    _write_manifest(staged, request, found, servable, signature, outcome)
    return outcome


def _check_bad(request: Request, total: Any) -> None:
    if not total.bad:
        return
    headline, place, remedy = total.first_bad
    if request.on_bad == "fail":
        more = f" ({total.bad} bad records or files in all)" if total.bad > 1 else ""
        raise InputError(headline + more, place=place, remedy=remedy)
    everything = total.answered + total.bad
    if total.bad > request.max_bad_fraction * everything:
        raise InputError(
            f"Too many records cannot be used: {total.bad} of {everything}, over "
            f"{request.max_bad_fraction:.2%}; the first: {headline}",
            place=place,
            remedy="Mend the data, or raise --max-bad-fraction.",
        )


def _write_manifest(
    staged: Path, request: Request, found: Inputs, servable: Servable, signature: str, outcome: Outcome
) -> None:
    origin = manifest.read(request.model)
    contents = {
        "model": origin.get("model", ""),
        "version": request.model.name,
        "run": origin.get("run", ""),
        "signature": signature,
        "class_names": servable.class_names,
        "source": str(request.source),
        "files": len(found.files),
        "ignored": found.ignored,
        "answered": outcome.answered,
        "bad": outcome.bad,
    }
    (staged / MANIFEST).write_text(json.dumps(contents, indent=1))


def resolve_model(serving: Path, name: str, version: int | None) -> Path:
    """The folder of a model's version; by default the one in service.

    Args:
        serving: the workspace's serving folder.
        name: a model's name.
        version: one that is there, in service or withdrawn.

    Raises:
        NotFoundError: there is no such model or version.
    """
    from components.serving_pusher import root as serving_root

    root = serving / name
    number = serving_root.in_service(root) if version is None else version
    folder = None if number is None else serving_root.folder_of(root, number)
    if folder is None:
        known = [path.name for path in serving.iterdir() if path.is_dir()] if serving.is_dir() else []
        what = f"no model {name!r} in service" if version is None else f"no version {version} of {name!r}"
        raise NotFoundError(
            f"There is {what}", place=str(serving), remedy="" if name in known else nearest(name, known)
        )
    return folder

"""Puts the server together and runs it until SIGTERM.

    asyncio.run(serve(Options(model_name="digits", model_base_path="serving/digits")))

Ports open when every configured model has loaded or failed to.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import signal
import socket
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from components.errors import ServableError
from components.logs import extra
from components.serving import signature
from components.serving.server import grpc_api, loading, rest_api, text_protos, warmup
from components.serving.server.loading import LoadSettings, Model
from components.serving.server.manager import ModelManager, Retries, every, version_folders
from components.serving.server.metrics import Metrics
from components.serving.server.options import Options
from components.serving.server.prediction_log import PredictionLog
from components.serving.server.prediction_log import Settings as LogSettings
from components.serving.server.running import BatchingRunner, DirectRunner, Runner
from components.serving.server.service import Service
from components.serving.server.status import RequestError
from components.serving.server.text_protos import ModelConfig

_log = logging.getLogger(__name__)

_KEEP_ALIVE_SECONDS = 75
"""Longer than the idle time that clients' connection pools commonly allow: the server must not
close a connection while a request is on its way."""


def load_and_warm(
    folder: Path, settings: LoadSettings, warm_up: bool, public_key: Path | None = None
) -> Model:
    """Loads the version in `folder` and sends it its warm-up requests.

    Args:
        folder: a version.
        settings: how it is loaded.
        warm_up: whether it is sent its warm-up requests.
        public_key: of who must have signed it; None for anybody.

    Raises:
        ServableError: it was not signed with that key, or is not as it was signed.
        Exception: whatever loading or the first failing request raises.
    """
    if public_key is not None:
        signature.verify(folder, public_key)
    model = loading.load(folder, settings)
    try:
        if warm_up:
            warmup.warm(model, folder)
    except BaseException:
        model.close()
        raise
    return model


def configured_models(options: Options) -> list[ModelConfig]:
    """The models that the options name, as things stand now.

    Raises:
        ServableError: the file or folder cannot be read.
        RequestError: the file names models that cannot be.
    """
    if options.model_config_file:
        return text_protos.read_models(Path(options.model_config_file))
    if options.model_base_path:
        return [ModelConfig(options.model_name, _folder(options.model_base_path), text_protos.latest(1))]
    root = _folder(options.model_root)
    models = (path for path in sorted(root.iterdir()) if not path.name.startswith("."))
    found = [root] if version_folders(root) else [path for path in models if _has_versions(path)]
    return [ModelConfig(path.name, path, text_protos.latest(1)) for path in found]


def _public_key(options: Options) -> Path | None:
    """The key that versions must be signed with; looked at now, so that a wrong one ends the start."""
    if not options.require_signature:
        return None
    path = Path(options.require_signature).expanduser().absolute()
    signature.check_public_key(path)
    return path


def _folder(path: str) -> Path:
    folder = Path(path).expanduser().absolute()
    if not folder.is_dir():
        raise ServableError(
            "There is no such folder of models",
            place=str(folder),
            remedy="Name the folder that holds the version folders, or the one above it (model_root).",
        )
    return folder


def _has_versions(path: Path) -> bool:
    return path.is_dir() and bool(version_folders(path))


@dataclass
class _Server:
    options: Options
    manager: ModelManager
    runner: Runner
    service: Service
    metrics: Metrics
    log: PredictionLog | None

    @classmethod
    def build(cls, options: Options) -> _Server:
        load = functools.partial(
            load_and_warm,
            settings=LoadSettings(tuple(options.saved_model_tags.split(",")), options.prefer_tflite_model),
            warm_up=options.enable_model_warmup,
            public_key=_public_key(options),
        )
        manager = ModelManager(
            configured_models(options),
            load,
            retries=Retries(options.max_num_load_retries, options.load_retry_interval_micros / 1e6),
            threads=options.num_load_threads,
            labels_anywhere=options.allow_version_labels_for_unavailable_models,
        )
        runner = _runner(options)
        log = _prediction_log(options)
        service = Service(
            manager,
            runner,
            options.max_queued_requests,
            options.enable_signature_method_name_check,
            options.max_image_pixels,
            log=log,
        )
        return cls(options, manager, runner, service, Metrics(), log)

    def polling(self) -> Iterator[asyncio.Task[None]]:
        """The tasks that watch version folders and, where asked for, the list of models."""
        options = self.options
        if options.file_system_poll_wait_seconds:
            look = self._look_for_models if options.model_root else self.manager.reconcile
            yield asyncio.create_task(every(options.file_system_poll_wait_seconds, look))
        if options.model_config_file and options.model_config_file_poll_wait_seconds:
            watch = _ConfigFile(options, self.manager)
            yield asyncio.create_task(every(options.model_config_file_poll_wait_seconds, watch.look))

    async def _look_for_models(self) -> None:
        try:
            await self.manager.apply(await asyncio.to_thread(configured_models, self.options))
        except (RequestError, OSError, ServableError) as error:
            _log.warning("%s", error)

    async def open_ports(self, closing: contextlib.AsyncExitStack) -> None:
        """Starts both APIs; `closing` gets what ends them once what is under way is answered.

        Raises:
            ServableError: a port cannot be listened on.
        """
        options = self.options
        if options.port:
            server = grpc_api.build(self.service, self.metrics, options.max_request_bytes)
            # Before the port: a server that was never stopped complains when it is freed.
            closing.push_async_callback(server.stop, options.shutdown_grace_seconds)
            try:
                host = f"[{options.host}]" if ":" in options.host else options.host
                server.add_insecure_port(f"{host}:{options.port}")
            except RuntimeError as error:
                raise _port_in_use(options.host, options.port) from error
            await server.start()
        if options.rest_api_port:
            settings = rest_api.RestSettings(
                options.max_request_bytes,
                options.rest_api_timeout_in_ms / 1000,
                options.rest_api_enable_cors_support,
                _metrics_path(options),
            )
            app = rest_api.build(self.service, self.metrics, settings)
            closing.push_async_callback((await _Rest.start(app, options)).stop)


class _ConfigFile:
    """Takes over a models.config when it changes; a bad one is logged and the old one kept."""

    def __init__(self, options: Options, manager: ModelManager) -> None:
        self._path = Path(options.model_config_file)
        self._manager = manager
        self._text = self._path.read_bytes()

    async def look(self) -> None:
        try:
            text = self._path.read_bytes()
            if text == self._text:
                return
            self._text = text
            await self._manager.apply(text_protos.read_models(self._path))
        except (OSError, ServableError, RequestError) as error:
            _log.error("The list of models was not taken over: %s", error)


class _Rest(uvicorn.Server):
    """uvicorn beside another server: signals are not its business."""

    @classmethod
    async def start(cls, app: Any, options: Options) -> _Rest:
        family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
        try:
            listening = socket.create_server(
                (options.host, options.rest_api_port), family=family, backlog=2048
            )
        except (OSError, OverflowError) as error:
            raise _port_in_use(options.host, options.rest_api_port) from error
        # Connections inherit it. asyncio sets it on sockets of its own making only, and
        # without it each answer waits 40 ms for the client's delayed acknowledgement.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        grace_s = max(1, round(options.shutdown_grace_seconds))
        config = uvicorn.Config(
            app,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=grace_s,
        )
        server = cls(config)
        server.finished = asyncio.create_task(server.serve([listening]))
        while not server.started and not server.finished.done():
            await asyncio.sleep(0.01)
        return server

    finished: asyncio.Task[None]

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def stop(self) -> None:
        """Answers what is under way, then closes."""
        self.should_exit = True
        await self.finished


def _runner(options: Options) -> Runner:
    if options.enable_batching:
        path = options.batching_parameters_file
        return BatchingRunner(
            text_protos.read_batching(Path(path)) if path else text_protos.BatchingParameters()
        )
    return DirectRunner(options.tensorflow_session_parallelism or os.cpu_count() or 1)


def _prediction_log(options: Options) -> PredictionLog | None:
    if not options.prediction_log:
        return None
    folder = Path(options.prediction_log).expanduser().absolute()
    share, room = options.prediction_log_share, options.prediction_log_max_bytes
    return PredictionLog(LogSettings(folder, share, room, options.prediction_log_inputs))


def _metrics_path(options: Options) -> str | None:
    if options.monitoring_config_file:
        return text_protos.read_metrics_path(Path(options.monitoring_config_file))
    return text_protos.METRICS_PATH if options.enable_metrics else None


def _port_in_use(host: str, port: int) -> ServableError:
    return ServableError(
        "The port cannot be listened on",
        place=f"{host}:{port}",
        remedy="Name a free one up to 65535, or end what uses it.",
    )


async def serve(
    options: Options, on_ready: Callable[[], None] | None = None, stop: asyncio.Event | None = None
) -> None:
    """Serves until SIGTERM or SIGINT; requests under way are answered first.

    Args:
        options: what to serve, and where.
        on_ready: called once the ports are open.
        stop: ends the server when it is set, instead of signals.

    Raises:
        ServableError: a file, folder or port cannot be used.
        RequestError: the list of models is not valid.
    """
    server = _Server.build(options)
    stop = stop or _set_by_signals()
    async with contextlib.AsyncExitStack() as closing:
        if server.log is not None:
            closing.callback(server.log.close)
        closing.callback(server.runner.close)
        closing.push_async_callback(server.manager.close)
        if await _ended_first(server.manager.reconcile(), stop):
            return
        server.manager.set_labels()
        await server.open_ports(closing)
        polling = list(server.polling())
        grpc_port, rest_port, host = options.port, options.rest_api_port, options.host
        told = extra("server.listening", host=host, grpc_port=grpc_port, rest_port=rest_port)
        _log.info("gRPC on port %d, REST on port %d of %s", grpc_port, rest_port, host, extra=told)
        if on_ready:
            on_ready()
        await stop.wait()
        told = extra("server.ending")
        _log.info("Ending: requests under way are answered, no new ones are taken", extra=told)
        for task in polling:
            task.cancel()


async def _ended_first(loading: Coroutine[Any, Any, None], stop: asyncio.Event) -> bool:
    """Awaits the first loads; true when the server is to end before they are done."""
    tasks = [asyncio.create_task(loading), asyncio.create_task(stop.wait())]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    ended = not tasks[0].done()
    for task in tasks:
        if not task.done():
            task.cancel()
    if not ended:
        tasks[0].result()
    return ended


def _set_by_signals() -> asyncio.Event:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop

"""Tells people what came of a round: a webhook, a program, or both.

    notify = Notifier(settings, "digits", clock=time.time, sleep=time.sleep)
    notify("promotion", record)

Delivery is tried several times and never stops a round. Addresses come from
the environment and are neither printed nor recorded.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

from pipelines.errors import ConfigError
from pipelines.retraining.ledger import Record
from pipelines.retraining.settings import Notifications

_WORDS = {
    "failure": "failed",
    "promotion": "promoted",
    "refusal": "was refused",
    "rollback": "was rolled back",
    "stopped": "is stopped",
}
_PAUSE_S = 2.0


class Notifier:
    """Sends what the settings ask for."""

    def __init__(
        self,
        settings: Notifications | None,
        experiment: str,
        *,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
        log: Callable[[str], None] = lambda line: None,
    ) -> None:
        """Looks up the webhook's address.

        Raises:
            ConfigError: the variable that should hold it is not set, or holds no address.
        """
        self._settings = settings
        self._experiment = experiment
        self._clock, self._sleep, self._log = clock, sleep, log
        self._url = _address(settings)

    def __call__(self, event: str, record: Record) -> None:
        settings = self._settings
        if settings is None or event not in settings.events:
            return
        message = self._message(event, record)
        if self._url:
            url = self._url
            self._deliver("webhook", lambda: _post(url, message, settings.timeout_s))
        if settings.command:
            self._deliver("command", lambda: _call(settings.command, message, settings.timeout_s))

    def _message(self, event: str, record: Record) -> dict[str, Any]:
        about = record.detail or record.reason
        version = f" (version {record.version})" if record.version else ""
        return {
            "text": f"Headrace: {self._experiment} {_WORDS[event]}{version}: {about}",
            "event": event,
            "experiment": self._experiment,
            "round": record.trigger,
            "reason": record.reason,
            "detail": record.detail,
            "run": record.run_id,
            "version": record.version or None,
            "at": self._clock(),
        }

    def _deliver(self, what: str, send: Callable[[], str]) -> None:
        assert self._settings is not None
        for attempt in range(1, self._settings.attempts + 1):
            fault = send()
            if not fault:
                return
            self._log(f"notification by {what}, attempt {attempt}: {fault}")
            if attempt < self._settings.attempts:
                self._sleep(_PAUSE_S * 2 ** (attempt - 1))


def _address(settings: Notifications | None) -> str:
    name = settings.webhook_env if settings else None
    if not name:
        return ""
    url = os.environ.get(name, "")
    if not url.startswith(("http://", "https://")):
        raise ConfigError(
            f"The environment variable {name} should hold the webhook's address; it is "
            f"{'no http(s) address' if url else 'not set'}",
            place="retraining.notify.webhook_env",
            remedy=f"export {name}=https://...",
        )
    return url


def _post(url: str, message: dict[str, Any], timeout_s: float) -> str:
    """What went wrong, without the address; empty for nothing."""
    body, headers = json.dumps(message).encode(), {"Content-Type": "application/json"}
    try:
        request = urllib.request.Request(url, body, headers, method="POST")
        with urllib.request.urlopen(request, timeout=timeout_s):
            return ""
    except urllib.error.HTTPError as error:
        return f"answered {error.code}"
    except urllib.error.URLError as error:
        return type(error.reason).__name__
    except (OSError, http.client.HTTPException, ValueError) as error:
        return type(error).__name__  # its text may repeat the address


def _call(command: list[str], message: dict[str, Any], timeout_s: float) -> str:
    """What went wrong; empty for nothing."""
    try:
        done = subprocess.run(
            command,
            input=json.dumps(message).encode(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=timeout_s,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return f"{command[0]}: {type(error).__name__}"
    return f"{command[0]} ended with {done.returncode}" if done.returncode else ""

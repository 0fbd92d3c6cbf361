"""Asks a model server, ours or TensorFlow Serving, by REST.

    client = ModelClient("127.0.0.1", 8501)
    client.status("digits")                       # {4: "AVAILABLE"}
    client.predict("digits", "predict_image", "image_bytes", [jpeg, png])

Standard library only, so that a command answers at once.
"""

from __future__ import annotations

import base64
import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from typing import Any, Self
from urllib.parse import quote

from components.errors import UserError

_BATCH_ROWS = 32
_BATCH_BYTES = 8 << 20


class ServerError(UserError):
    """A server that cannot be reached, or that refused a request.

    Attributes:
        status: the HTTP status; 0 when there was no answer.
    """

    def __init__(self, headline: str, *, status: int = 0, place: str = "", remedy: str = "") -> None:
        super().__init__(headline, place=place, remedy=remedy)
        self.status = status


class ModelClient:
    """A model server's REST API.

    Args:
        host: name or address.
        rest_port: TensorFlow Serving's --rest_api_port.
        timeout_s: for one request.
    """

    def __init__(self, host: str, rest_port: int, timeout_s: float = 60.0) -> None:
        self._base = f"http://{host}:{rest_port}/v1/models/"
        self._timeout_s = timeout_s

    @classmethod
    def at(cls, url: str, timeout_s: float = 60.0) -> Self:
        """A client of the server at a URL such as `https://models.example.com`."""
        client = cls("", 0, timeout_s)
        client._base = f"{url.rstrip('/')}/v1/models/"
        return client

    def status(self, model: str) -> dict[int, str]:
        """State by version number.

        Raises:
            ServerError: no answer, or no such model.
        """
        listed = self._field(quote(model, safe=""), None, "model_version_status")
        return {int(item["version"]): item["state"] for item in listed}

    def signatures(self, model: str) -> dict[str, Any]:
        """Signature name -> `inputs` and `outputs` by name, as the metadata call gives them.

        Raises:
            ServerError: no answer, or no such model.
        """
        metadata = self._field(f"{quote(model, safe='')}/metadata", None, "metadata")
        found: dict[str, Any] = metadata["signature_def"]["signature_def"]
        return found

    def predict(
        self,
        model: str,
        signature: str,
        input_name: str,
        raw: Sequence[bytes],
        version: int | None = None,
    ) -> list[dict[str, Any]]:
        """The outputs for each raw input, in requests of at most 32 rows and about 8 MB.

        Args:
            model: its name.
            signature: the signature to call.
            input_name: its one input, (B,) string.
            raw: the inputs.
            version: the one to ask; by default the one in service.

        Returns:
            Per input its outputs by name; a single output, which the server
            sends without its name, is called `outputs`.

        Raises:
            ServerError: no answer, or the server refused a request.
        """
        rows: list[dict[str, Any]] = []
        for batch in _batches(raw):
            encoded = [{"b64": base64.b64encode(item).decode()} for item in batch]
            rows += self.predict_values(model, signature, input_name, encoded, version)
        return rows

    def predict_values(
        self,
        model: str,
        signature: str,
        input_name: str,
        values: Sequence[Any],
        version: int | None = None,
    ) -> list[dict[str, Any]]:
        """The same for values as JSON has them, such as nested lists of numbers, in one request.

        Raises:
            ServerError: no answer, or the server refused.
        """
        path = quote(model, safe="") + ("" if version is None else f"/versions/{version}")
        body = {"signature_name": signature, "instances": [{input_name: item} for item in values]}
        predictions = self._field(f"{path}:predict", body, "predictions")
        return [item if isinstance(item, dict) else {"outputs": item} for item in predictions]

    def _field(self, path: str, body: dict[str, Any] | None, name: str) -> Any:
        answer = self._call(path, body)
        if not isinstance(answer, dict) or name not in answer:
            raise ServerError(
                f"What answers is no model server: its answer has no {name!r}",
                place=self._base + path,
                remedy="Name the REST address of one with --host and --rest-port.",
            )
        return answer[name]

    def _call(self, path: str, body: dict[str, Any] | None = None) -> Any:
        url = self._base + path
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=self._timeout_s) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            raise ServerError(
                f"The server refused: {_message(error)}",
                status=error.code,
                place=url,
                remedy="Check the model's name, and that a version of it is loaded."
                if error.code == 404
                else "",
            ) from error
        except (OSError, ValueError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error) or type(error).__name__
            raise ServerError(
                f"The server does not answer: {reason}",
                place=url,
                remedy="Start one (headrace serve), or name another with --host and --rest-port.",
            ) from error


def _message(error: urllib.error.HTTPError) -> str:
    try:
        # TensorFlow's messages go on with the node that failed.
        return str(json.load(error)["error"]).splitlines()[0]
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return str(error)


def _batches(raw: Sequence[bytes]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    size = 0
    for item in raw:
        if batch and (len(batch) == _BATCH_ROWS or size + len(item) > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += len(item)
    if batch:
        yield batch

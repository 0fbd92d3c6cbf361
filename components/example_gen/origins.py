"""Where local copies of files come from, as `pipelines.remote` keeps them.

    name("/w/data/fetched/3f.../photos/a.jpg")        # s3://bucket/photos/a.jpg

A copy lies in `fetched/<digest>/`, and `fetched/<digest>.json` says of what.
Whatever names a file to a reader, or in the record, uses the name from here.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

FOLDER = "fetched"
DIGEST_CHARACTERS = 32
_COPY = re.compile(rf"(?P<folder>.*/{FOLDER}/[0-9a-f]{{{DIGEST_CHARACTERS}}})(?P<name>/.*|)")


def name(path: str) -> str:
    """The address that a copy comes from; the path itself where it is no copy."""
    match = _COPY.fullmatch(path)
    origin = _origin(match["folder"]) if match else None
    return f"{origin}{match['name']}" if match and origin else path


@lru_cache(maxsize=256)
def _origin(folder: str) -> str | None:
    try:
        return str(json.loads(Path(f"{folder}.json").read_text())["url"])
    except (OSError, ValueError, KeyError):
        return None


def without_secrets(url: str) -> str:
    """An address without a user, a password, a query: these may hold secrets, and all is recorded."""
    parts = urlsplit(url)
    if parts.scheme.lower() not in ("http", "https"):
        return url
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


_MENTION = re.compile(rf"/[^\s,;:'\"]*?/{FOLDER}/[0-9a-f]{{{DIGEST_CHARACTERS}}}(?:/[^\s,;:'\"]*)?")


def told(text: str) -> str:
    """A text, in which copies are called by the addresses that they come from."""
    return _MENTION.sub(lambda match: name(match[0]), text)

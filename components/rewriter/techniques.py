"""The rewrite techniques by name. `identity` is always built: the others are compared with it."""

from __future__ import annotations

from components.rewriter import float16, frozen, identity
from components.rewriter.base import Build

IDENTITY = "identity"

TECHNIQUES: dict[str, Build] = {
    IDENTITY: identity.build,
    "frozen": frozen.build,
    "float16": float16.build,
}

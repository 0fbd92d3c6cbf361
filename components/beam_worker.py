"""Imported first by Beam workers that run in processes of their own.

TensorFlow Data Validation's native extension is found only after TFX was
imported; a worker unpickles steps of the former without importing the latter.
"""

from __future__ import annotations

import tfx.components  # noqa: F401

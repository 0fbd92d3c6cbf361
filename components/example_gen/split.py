"""Which split a record belongs to: by hash of its bytes, so that equal records share a split."""

from __future__ import annotations

import bisect
import hashlib
import itertools
from collections.abc import Sequence


def split_of(record: bytes, splits: Sequence[tuple[str, int]]) -> str:
    """The split of a record, the same on every machine and in every run."""
    edges = list(itertools.accumulate(share for _, share in splits))
    bucket = int.from_bytes(hashlib.sha256(record).digest()[:8], "big") % edges[-1]
    return splits[bisect.bisect(edges, bucket)][0]

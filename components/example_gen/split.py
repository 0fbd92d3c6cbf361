"""Which split a record belongs to.

assign = splitter(plan, present={"train", "test"}, cuts=())
assign(source, record)          # "train"
"""

from __future__ import annotations

import bisect
import hashlib
import itertools
from collections.abc import Callable, Sequence, Set
from datetime import datetime

import numpy as np
import tensorflow as tf

from components.errors import DataError
from components.example_gen.request import Source, SplitPlan

TEST = "test"
TRAIN = "train"
Shares = Sequence[tuple[str, int]]


def bucket_split(key: bytes, shares: Shares) -> str:
    """The split of a key by hash, the same on every machine and in every run."""
    edges = list(itertools.accumulate(share for _, share in shares))
    bucket = int.from_bytes(hashlib.sha256(key).digest()[:8], "big") % edges[-1]
    return shares[bisect.bisect(edges, bucket)][0]


def splitter(
    plan: SplitPlan, present: Set[str], cuts: Sequence[float] = ()
) -> Callable[[Source, bytes], str]:
    """The function from a source and a serialized Example to a split's name.

    Args:
        plan: how to split.
        present: with `folder`, the splits that folders name. Where one is
            missing it is cut from `train` by hash, in the plan's shares.
        cuts: with `time`, the ends of all splits but the last (see `time_cuts`).
    """

    def by_hash(source: Source, record: bytes) -> str:
        if plan.test_span >= 0:
            return TEST if source.span == plan.test_span else bucket_split(_key(plan, record), earlier)
        return bucket_split(_key(plan, record), plan.shares)

    def by_folder(source: Source, record: bytes) -> str:
        if source.split != TRAIN or not missing:
            return source.split
        return bucket_split(_key(plan, record), from_train)

    def by_time(source: Source, record: bytes) -> str:
        return plan.shares[bisect.bisect_right(cuts, time_of(record, plan.key))][0]

    missing = [name for name, _ in plan.shares if name not in present]
    from_train = [item for item in plan.shares if item[0] == TRAIN or item[0] in missing]
    earlier = [item for item in plan.shares if item[0] != TEST]
    return {"hash": by_hash, "folder": by_folder, "time": by_time}[plan.by]


def _key(plan: SplitPlan, record: bytes) -> bytes:
    if not plan.key:
        return record
    feature = tf.train.Example.FromString(record).features.feature[plan.key]
    kind = feature.WhichOneof("kind")
    values = getattr(feature, kind).value if kind else ()
    return b"\0".join(value if isinstance(value, bytes) else repr(value).encode() for value in values)


def time_of(record: bytes, key: str) -> float:
    """The time of a record in seconds: a number as it is, a text as ISO 8601.

    Raises:
        ValueError: there is no value, or it is no time.
    """
    feature = tf.train.Example.FromString(record).features.feature[key]
    kind = feature.WhichOneof("kind")
    values = getattr(feature, kind).value if kind else ()
    if not values:
        raise ValueError(f"feature {key!r}, by whose time records are split, has no value")
    if isinstance(values[0], bytes):
        return datetime.fromisoformat(values[0].decode()).timestamp()
    return float(values[0])


def time_cuts(times: Sequence[float], shares: Shares) -> list[float]:
    """The times at which one split ends and the next begins.

    Records of one time stay in one split.

    Raises:
        DataError: the times do not differ enough for so many splits.
    """
    ordered = np.sort(np.asarray(times, np.float64))
    edges = list(itertools.accumulate(share for _, share in shares))
    cuts = [float(ordered[int(len(ordered) * edge / edges[-1])]) for edge in edges[:-1]]
    if len(set(cuts)) < len(cuts) or cuts[0] <= ordered[0]:
        raise DataError(
            "The times of the records do not differ enough to split by them",
            place=f"{len(ordered)} records, {len(set(times))} different times",
            remedy="Split by hash, or name another column (data.split.key).",
        )
    return cuts

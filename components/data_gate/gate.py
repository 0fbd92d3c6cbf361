"""Turns anomalies and shifts into sentences, and into a stop.

check(findings, remedy)      # raises AnomalyError where there is one
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tensorflow_metadata.proto.v0 import anomalies_pb2, statistics_pb2

from components.errors import AnomalyError

ALL = "all"
UNSEEN_TEXT = "enum_type_unexpected_string_values"
"""A text that the schema does not list: no anomaly of free text, in which every one is new."""
_MAX_SHOWN = 50


def kinds() -> list[str]:
    """The kinds of anomalies that TFDV knows, in lower case."""
    return sorted(name.lower() for name in anomalies_pb2.AnomalyInfo.Type.DESCRIPTOR.values_by_name)


def chosen_kinds(fail_on: Sequence[str]) -> list[str]:
    """The kinds to fail on; `all` stands for every one.

    Raises:
        AnomalyError: there is no such kind.
    """
    unknown = sorted(set(fail_on) - {ALL, *kinds()})
    if unknown:
        raise AnomalyError(
            f"There is no kind of anomaly {unknown[0]!r}",
            place="validation.fail_on",
            remedy=f"Known: all, {', '.join(kinds())}.",
        )
    return kinds() if ALL in fail_on else sorted(set(fail_on))


def sentences(
    split: str, anomalies: anomalies_pb2.Anomalies, fail_on: Collection[str], free_text: Collection[str] = ()
) -> list[str]:
    """One sentence per anomaly of the kinds to fail on: split, feature, expected and seen.

    An anomaly counts when any of its reasons is of such a kind; in the features
    of `free_text` values that were never seen do not.
    """
    in_free_text = set(fail_on) - {UNSEEN_TEXT}
    found = []
    if anomalies.HasField("dataset_anomaly_info") and _counts(anomalies.dataset_anomaly_info, fail_on):
        found.append(f"{split}: {anomalies.dataset_anomaly_info.description}")
    for feature, info in sorted(anomalies.anomaly_info.items()):
        if _counts(info, in_free_text if feature in free_text else fail_on):
            found.append(f"{split}: feature {feature!r}: {info.description}")
    if anomalies.data_missing:
        found.append(f"{split}: the split holds no data")
    return found


def several_values(
    split: str, statistics: statistics_pb2.DatasetFeatureStatisticsList, ignored: Collection[str]
) -> list[str]:
    """One sentence per column with more than one value in a row, of which a table's model takes one."""
    counts = {
        feature.path.step[0]: common.max_num_values
        for feature in statistics.datasets[0].features
        if (
            common := (
                feature.num_stats if feature.HasField("num_stats") else feature.string_stats
            ).common_stats
        )
    }
    return [
        f"{split}: feature {name!r}: Expected one value in a row; up to {count} were seen"
        for name, count in sorted(counts.items())
        if count > 1 and name not in ignored
    ]


def _counts(info: anomalies_pb2.AnomalyInfo, fail_on: Collection[str]) -> bool:
    found = {anomalies_pb2.AnomalyInfo.Type.Name(reason.type).lower() for reason in info.reason}
    return bool(found & set(fail_on))


def check(findings: Sequence[str], place: str, remedy: str) -> None:
    """Raises an AnomalyError that lists the findings, if there are any.

    Where they are a flood, all of them are in the node's log: a failed node has no output that is kept.
    """
    if not findings:
        return
    if len(findings) > _MAX_SHOWN:
        print("What stops the run:", *findings, sep="\n", flush=True)
    shown = "; ".join(findings[:_MAX_SHOWN])
    hidden = len(findings) - _MAX_SHOWN
    more = f"; and {hidden} more, in the node's log (DataGate.log in the run's folder)"
    raise AnomalyError(
        f"The data is not what its schema says: {shown}{more if hidden > 0 else ''}",
        place=place,
        remedy=remedy,
    )

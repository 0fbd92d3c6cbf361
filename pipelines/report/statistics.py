"""A page of a run's statistics: every feature, its splits side by side; self-contained, readable offline.

text = page(view.run.run_id, features(view), made_at=time.time())
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipelines.lineage.render import clock
from pipelines.report import charts, shell
from pipelines.report.features import Feature, SplitStatistics
from pipelines.report.markup import Child, Markup, fold, table, tag

_TOP = 12
_LONG = 60
_MAX_LINKS = 40


def page(run_id: str, features: Sequence[Feature], *, made_at: float) -> str:
    """The whole page.

    Args:
        run_id: in the title.
        features: as `features.features` gives them; at least one.
        made_at: seconds since the epoch.
    """
    ids = {feature.name: f"feature-{number}" for number, feature in enumerate(features)}
    examples = {name: split.examples for feature in features for name, split in feature.splits.items()}
    sizes = ", ".join(f"{count:,} {name}" for name, count in examples.items())
    header = tag(
        "header",
        tag("p", "Statistics of the data of a run", class_="note"),
        tag("h1", run_id),
        tag("p", f"{len(features)} features. Examples: {sizes}."),
    )
    main = tag(
        "main",
        header,
        _overview(features, ids),
        *(_feature(feature, ids[feature.name]) for feature in features),
        id="content",
    )
    links = [(feature.name, f"#{ids[feature.name]}") for feature in features[:_MAX_LINKS]]
    navigation = [("Overview", "#overview"), *links]
    return shell.document(
        f"{run_id} · statistics", navigation, main, f"headrace data stats, {clock(made_at)}"
    )


def _overview(features: Sequence[Feature], ids: Mapping[str, str]) -> Markup:
    splits = list(dict.fromkeys(name for feature in features for name in feature.splits))
    rows = [
        (
            tag("a", feature.name, href=f"#{ids[feature.name]}"),
            feature.kind,
            *(_missing(feature.splits.get(name)) for name in splits),
        )
        for feature in features
    ]
    head = ("feature", "type", *(f"missing in {name}" for name in splits))
    return tag("section", tag("h2", "Overview"), table(head, rows, caption="All features"), id="overview")


def _missing(split: SplitStatistics | None) -> str:
    return "-" if split is None else f"{split.missing:.1%}"


def _feature(feature: Feature, id_: str) -> Markup:
    return tag(
        "section",
        tag("h2", feature.name, " ", tag("span", feature.kind, class_="note")),
        tag("div", _chart(feature), _values(feature), class_="charts"),
        _quantiles(feature),
        id=id_,
    )


def _values(feature: Feature) -> Markup:
    """Names down, splits across."""
    names = list(dict.fromkeys(name for split in feature.splits.values() for name in split.values))
    rows = [("missing", *(f"{split.missing:.1%}" for split in feature.splits.values()))]
    rows += [(name, *(split.values.get(name, "-") for split in feature.splits.values())) for name in names]
    return tag("div", table(("", *feature.splits), rows, caption="In numbers"))


def _chart(feature: Feature) -> Child:
    histograms = {name: split.histogram for name, split in feature.splits.items() if split.histogram}
    if histograms:
        return charts.histogram(histograms, title="Share of values")
    if any(split.top for split in feature.splits.values()):
        return _top_values(feature)
    return None


def _top_values(feature: Feature) -> Markup:
    """The most frequent values of the first split, with their share of each split's examples."""
    counts = {name: dict(split.top) for name, split in feature.splits.items()}
    total: dict[str, float] = {}
    for top in counts.values():
        for value, count in top.items():
            total[value] = total.get(value, 0) + count
    often = sorted(total, key=lambda value: (-total[value], value))[:_TOP]
    rows = [
        (_short(value), *(_share(counts[name].get(value), split) for name, split in feature.splits.items()))
        for value in often
    ]
    caption = "Most frequent values, and their share of all examples"
    return tag("div", table(("value", *feature.splits), rows, caption=caption))


def _share(count: float | None, split: SplitStatistics) -> Child:
    """A value that is not among a split's most frequent ones is not counted there by StatisticsGen."""
    if count is None or not split.examples:
        return "-"
    share = count / split.examples
    return tag("span", f"{share:.1%} ", charts.bar(share))


def _short(value: str) -> Markup:
    if not value.strip():
        return tag("i", "blank")
    shown = value if len(value) <= _LONG else value[: _LONG - 1] + "…"
    return tag("span", shown, title=value if shown != value else None, class_="value")


def _quantiles(feature: Feature) -> Child:
    given = {name: split.quantiles for name, split in feature.splits.items() if split.quantiles}
    if not given:
        return None
    steps = min(len(quantiles) for quantiles in given.values())
    rows = [
        (f"{number / (steps - 1):.0%}", *(f"{quantiles[number]:.6g}" for quantiles in given.values()))
        for number in range(steps)
    ]
    return fold("Quantiles", table(("share below", *given), rows, caption="Quantiles"))

"""What a card says, that it says nothing that was not recorded, and how both forms escape it."""

from __future__ import annotations

import dataclasses

import yaml

from pipelines.cards import card, hub
from pipelines.cards.blocks import html, markdown
from pipelines.cards.known import Known


def test_the_sections_in_order(found) -> None:
    titles = [section.title for section in card.of(found).sections]
    assert titles == ["What it is", "Data", "Metrics", "Limits", "How to use it", "Where it comes from"]


def test_metrics_of_each_slice_with_intervals(found) -> None:
    text = markdown(card.of(found))
    assert "| overall | 1,000 | 0.9000 (0.8798 to 0.9171) |" in text
    rows = [line.split(" | ")[0] for line in text.splitlines() if line.startswith(("| overall", "| label="))]
    assert rows == ["| overall", "| label=9", "| label=10"]
    assert "On the same examples m@2 had accuracy 0.85." in text


def test_limits_are_the_author_s_and_the_measured_ones(found) -> None:
    text = markdown(card.of(found))
    limits = text.partition("## Limits\n\n")[2].partition("\n\n##")[0].splitlines()
    assert limits == [
        r"- Not for \| pipes.",
        "- Whatever it is shown, it answers with one of its classes; it cannot say that none fits.",
        "- It does worst on label=9 (0.8900 of 999 examples).",
        "- Too few examples to know the accuracy within 10 points: label=10.",
        "- Rewriting it may have cost up to 0.80 points of accuracy (an upper bound).",
    ]


def test_data_with_statistics_and_anomalies(found) -> None:
    text = markdown(card.of(found))
    assert "- **Source**: photos/" in text
    assert "| 10 | 1 | 0 |" in text
    assert "| width | train | float | 10.0% | 1 to 3; mean 2, deviation 0; 0 zeros |" in text
    assert "Examples contain values missing from the schema: 7." in text


def test_what_is_not_recorded_is_not_said(found) -> None:
    bare = Known(found.push, dataclasses.replace(found.view, nodes={}, input_files=[]), "", {}, {}, {}, {})
    bare.view.run.details["summary"] = {}
    text = markdown(card.of(bare))
    assert "Its evaluation is no longer recorded." in text
    for heading in ("accuracy", "Statistics", "Answers", "Signatures", "Weights"):
        assert heading not in text


def test_words_of_others_are_escaped_in_both_forms(found) -> None:
    made = card.of(found)
    assert "Telling &lt;b&gt;x&lt;/b&gt;." in markdown(made)
    page = html(made)
    assert "<b>x</b>" not in page and "Telling &lt;b&gt;x&lt;/b&gt;." in page
    assert 'http-equiv="Content-Security-Policy"' in page


def test_a_licence_stands_first_or_its_lack_is_said(found) -> None:
    assert "- **Licence**: Apache-2.0" in markdown(card.of(found))
    assert "- **Pushed**: 2023-11-14 22:13 UTC" in markdown(card.of(found))
    found.view.config["card"] = {}
    assert "none was given (card.license in the experiment)" in markdown(card.of(found))


def test_the_heading_that_the_hub_reads(found) -> None:
    text = hub.readme(found, "# m\n")
    heading = yaml.safe_load(text.split("---\n")[1])
    assert text.endswith("---\n\n# m\n")
    assert heading["license"] == "apache-2.0"
    assert heading["pipeline_tag"] == "image-classification"
    (result,) = heading["model-index"][0]["results"]
    assert result["dataset"] == {"name": "photos", "type": "photos", "split": "test"}
    assert result["metrics"] == [{"type": "accuracy", "value": 0.9}]


def test_a_licence_that_the_hub_does_not_know_keeps_its_name(found) -> None:
    found.view.config["card"] = {"license": "Our own 2"}
    heading = hub.heading(found)
    assert (heading["license"], heading["license_name"]) == ("other", "Our own 2")


def test_the_config_of_the_hub(found) -> None:
    made = hub.config(found)
    assert made["id2label"]["2"] == "<b>x</b>" and made["label2id"]["1"] == 1
    assert made["servable"]["runtime"] == "saved_model"


def test_a_regression_has_an_interval_of_its_error(found) -> None:
    slices = {"overall": {"mean_absolute_error": 1.0, "mean_squared_error": 1.5, "example_count": 400.0}}
    servable = {**found.servable, "class_names": [], "classes": ""}
    made = dataclasses.replace(found, slices=slices, before={}, servable=servable)
    text = markdown(card.of(made))
    assert "| overall | 400 | 1 (0.9307 to 1.0693) | 1.5 |" in text
    assert "- **Answers**: a number" in text and "one of its classes" not in text

"""Draws docs/case-study.svg from bench/results/case_study.json: `python tools/draw_case_study.py`.

For each story two rows of bars: the training rate relative to its first step, and the
size of the weights; accuracy stands beside every bar.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

ROOT = Path(__file__).parents[1]
RESULT, PICTURE = ROOT / "bench" / "results" / "case_study.json", ROOT / "docs" / "case-study.svg"
WIDTH, LEFT, BAR, GAP, HEAD = 860, 300, 20, 10, 46
SCALE = 330
RATE, SIZE, LATENCY = "#1565c0", "#2e7d32", "#e65100"


def bars(title: str, rows: Sequence[tuple[str, float, str]], colour: str, top: int) -> Iterator[str]:
    """One group of bars: (label, value, text behind the bar)."""
    largest = max((value for _, value, _ in rows), default=1.0) or 1.0
    yield f'<text x="16" y="{top + 24}" class="title">{escape(title)}</text>'
    for number, (label, value, text) in enumerate(rows):
        y = top + HEAD + number * (BAR + GAP)
        length = max(1.0, SCALE * value / largest)
        yield f'<text x="{LEFT - 10}" y="{y + 15}" class="label">{escape(label)}</text>'
        yield f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}" fill="{colour}"/>'
        yield f'<text x="{LEFT + length + 8:.1f}" y="{y + 15}" class="text">{escape(text)}</text>'


def groups(found: dict[str, Any]) -> Iterator[tuple[str, list[tuple[str, float, str]], str]]:
    """The groups of the picture, from the result."""
    for key, name, unit in (
        ("resnet", "ResNet-50, 224 x 224", "images/s"),
        ("encoder", "Encoder", "texts/s"),
    ):
        steps = found.get(key, [])
        trained = [step for step in steps if step["rate"]]
        if not trained:
            continue
        yield (
            f"{name}: training, {unit}",
            [
                (step["name"], step["rate"], f"{step['rate']:.1f}   (accuracy {step['accuracy']:.1%})")
                for step in trained
            ],
            RATE,
        )
        sized = [step for step in steps if not step["name"].startswith("+")]
        if key == "resnet":
            yield (
                f"{name}: size, MB",
                [
                    (
                        step["name"],
                        step["megabytes"],
                        f"{step['megabytes']:.1f}   (accuracy {step['accuracy']:.1%})",
                    )
                    for step in sized
                ],
                SIZE,
            )
            yield (
                f"{name}: one answer, ms",
                [(step["name"], step["latency_ms"], f"{step['latency_ms']:.1f}") for step in sized],
                LATENCY,
            )


def _with_accuracy(step: dict[str, Any], value: float) -> str:
    return f"{value:.1f}   (accuracy {step['accuracy']:.1%})"


def picture(found: dict[str, Any]) -> str:
    """The whole SVG."""
    parts: list[str] = []
    top = 0
    for title, rows, colour in groups(found):
        parts.extend(bars(title, rows, colour, top))
        top += HEAD + len(rows) * (BAR + GAP) + 14
    style = (
        "text{font:13px sans-serif;fill:#222}.title{font-weight:bold;font-size:15px}"
        ".label{text-anchor:end}svg{background:#fff}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" role="img">'
        f"<title>The textbook case as measured</title><style>{style}</style>{''.join(parts)}</svg>\n"
    )


if __name__ == "__main__":
    PICTURE.write_text(picture(json.loads(RESULT.read_text())))
    print(f"wrote {PICTURE}")

"""Writes docs/case-study.md and draws docs/case-study.svg: `python tools/draw_case_study.py`.

Both come from bench/results/case_study.json, which `python -m bench.case_study`
writes; accuracy stands beside every rate and every size.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "bench" / "results" / "case_study.json"
PICTURE, PAGE = ROOT / "docs" / "case-study.svg", ROOT / "docs" / "case-study.md"
PROMISES = {
    "resnet50_mixed_xla_rate": (
        "Mixed precision with XLA trains ResNet-50 2.4 times as fast",
        "The promise comes from GPUs. On a CPU XLA saves passes over memory, but it has convolutions of its "
        "own that are slower than oneDNN's, and these are most of a ResNet's time.",
    ),
    "resnet50_mixed_rate": (
        "Mixed precision without XLA trains ResNet-50 2.4 times as fast",
        "16-bit numbers pay where the CPU multiplies them itself (AVX512-BF16 or AMX), and less than on a "
        "GPU: normalisation, activations and sums stay in 32 bits, and are bound by memory.",
    ),
    "resnet50_separable_size": (
        "Separable convolutions bring 80 MB down to 45 MB",
        "More than half of ResNet-50's weights are in 1 x 1 convolutions, which cannot be taken apart.",
    ),
    "resnet50_quantized_size": (
        "Separable and quantized, it takes 15 MB (of 80)",
        "int8 takes a quarter of float32, and the separable network is larger to begin with.",
    ),
    "resnet50_quantized_latency": (
        "Quantized, it answers 30 % faster",
        "int8 is only faster where the kernels use the CPU's integer dot products for the shapes at hand.",
    ),
    "encoder_mixed_xla_rate": (
        "Mixed precision with XLA trains an encoder on 2.5 times the tokens a second",
        "As above: the factor is that of a GPU's 16-bit units. What XLA saves on a CPU is memory traffic "
        "between element-wise operations, which matrix products outweigh.",
    ),
    "encoder_mixed_rate": (
        "Mixed precision without XLA trains an encoder on 2.5 times the tokens a second",
        "At this width and length much of a step is not matrix products, and only these have 16-bit kernels.",
    ),
}
"""Figure -> what guides promise, and why it may not hold here."""
WIDTH, LEFT, BAR, GAP, HEAD = 880, 325, 20, 10, 46
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


def page(found: dict[str, Any]) -> str:
    """The whole Markdown page."""
    machine, scale = found["machine"], found["scale"]
    head = (
        "# The textbook case, measured\n\n"
        "What guides promise of a ResNet-50 at 224 x 224 and of a BERT-like encoder, step by step, as it "
        f"came out on {machine['cores']} cores of {machine['cpu']}, with no GPU. Everything was trained with "
        f"Headrace's loop on scikit-learn's digits ({scale['train']} scans to train on, {scale['test']} "
        "others to judge by; the encoder reads a scan as 64 tokens), each step in a process of its own. Each "
        "`+` is added to the line above; the last takes XLA away again. int8 answers in LiteRT, the "
        "others in TensorFlow: a part of their gain is the runtime's. What a training takes by itself is "
        "decided by timing it: see [training](training.md). "
        "Written by `python -m bench.case_study && python tools/draw_case_study.py`.\n\n"
        "![Rates, sizes and answers](case-study.svg)\n"
    )
    tables = [
        f"\n## {title}\n\n{_table(found[key])}"
        for key, title in (("resnet", "ResNet-50"), ("encoder", "The encoder"))
        if found.get(key)
    ]
    return head + "".join(tables) + "\n## What holds here\n\n" + "".join(map(_promise, found["figures"]))


def _table(steps: Sequence[dict[str, Any]]) -> str:
    rows = [
        f"| {step['name']} | {step['rate']:.1f} | {step['megabytes']:.1f} | {step['accuracy']:.1%} "
        f"| {step['latency_ms']:.1f} | {_seconds(step)} |\n"
        for step in steps
    ]
    head = "| step | examples/s in training | weights, MB | accuracy | one answer, ms | training, s |\n"
    return head + "|---|---|---|---|---|---|\n" + "".join(row.replace("| 0.0 |", "| |", 1) for row in rows)


def _seconds(step: dict[str, Any]) -> str:
    return f"{step['seconds']:.0f}" if step["rate"] else ""


def _promise(figure: dict[str, Any]) -> str:
    promise, why = PROMISES[figure["name"]]
    measured = (
        f"{figure['ours']:.4g} against {figure['other']:.4g} {figure['unit']}, {figure['ratio']:.2f} times"
    )
    if figure["reached"]:
        return f"- {promise}: holds ({measured}).\n"
    return f"- {promise}: does not hold here ({measured}). {why}\n"


if __name__ == "__main__":
    result = json.loads(RESULT.read_text())
    PICTURE.write_text(picture(result))
    PAGE.write_text(page(result))
    print(f"wrote {PAGE} and {PICTURE}")

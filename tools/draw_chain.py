"""Draws docs/chain.svg, the picture of the chain: `python tools/draw_chain.py`."""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

WIDTH, HEIGHT, GAP, LEFT, TOP = 148, 54, 26, 16, 58

# Rows of (node, what it does, whether it can stop the run or refuse the model).
ROWS = [
    [
        ("ExampleGen", "files to splits", True),
        ("StatisticsGen", "of every split", False),
        ("SchemaGen", "inferred or curated", False),
        ("ExampleValidator", "anomalies", False),
        ("DataGate", "stops on anomalies", True),
        ("Transform", "full-pass analysis", False),
    ],
    [
        ("Trainer", "model and history", False),
        ("Rewriter", "measured candidates", True),
        ("Evaluator", "against the baseline", True),
        ("InfraValidator", "fresh process", True),
        ("Pusher", "next version", False),
        ("Serving root", "TensorFlow Serving", False),
    ],
]


def box(column: int, row: int, name: str, text: str, gate: bool) -> str:
    x, y = LEFT + column * (WIDTH + GAP), TOP + row * (HEIGHT + 54)
    fill, stroke = ("#fff3e0", "#e65100") if gate else ("#e8f1fb", "#1565c0")
    return (
        f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="6" fill="{fill}" stroke="{stroke}"/>'
        f'<text x="{x + WIDTH / 2}" y="{y + 23}" class="name">{escape(name)}</text>'
        f'<text x="{x + WIDTH / 2}" y="{y + 41}" class="text">{escape(text)}</text>'
    )


def arrow(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" class="arrow"/>'


def draw() -> str:
    total = LEFT * 2 + 6 * WIDTH + 5 * GAP
    parts = []
    for row, nodes in enumerate(ROWS):
        y = TOP + row * (HEIGHT + 54) + HEIGHT / 2
        for column, (name, text, gate) in enumerate(nodes):
            parts.append(box(column, row, name, text, gate))
            if column:
                x = LEFT + column * (WIDTH + GAP)
                parts.append(arrow(x - GAP, y, x - 5, y))
    turn = TOP + HEIGHT + 27
    right, left = LEFT + 5 * (WIDTH + GAP) + WIDTH / 2, LEFT + WIDTH / 2
    parts.append(
        f'<path d="M{right} {TOP + HEIGHT} V{turn} H{left} V{TOP + HEIGHT + 49}" fill="none" class="arrow"/>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total}" height="{TOP + 2 * HEIGHT + 78}" '
        f'font-family="sans-serif">'
        "<style>.name{font-size:14px;font-weight:bold;text-anchor:middle;fill:#202020}"
        ".text{font-size:11px;text-anchor:middle;fill:#505050}"
        ".arrow{stroke:#606060;stroke-width:1.5;marker-end:url(#head)}</style>"
        '<defs><marker id="head" markerWidth="8" markerHeight="8" refX="6" refY="3" orient="auto">'
        '<path d="M0 0 L6 3 L0 6 z" fill="#606060"/></marker></defs>'
        '<rect width="100%" height="100%" fill="white"/>'
        f'<text x="{LEFT}" y="32" font-size="17" font-weight="bold" fill="#202020">'
        "The chain: what is blessed is what is served</text>"
        + "".join(parts)
        + f'<text x="{LEFT}" y="{TOP + 2 * HEIGHT + 68}" font-size="11" fill="#505050">'
        "Orange nodes can stop the run or refuse the model. All are recorded in ML Metadata.</text></svg>"
    )


if __name__ == "__main__":
    target = Path(__file__).parents[1] / "docs" / "chain.svg"
    target.parent.mkdir(exist_ok=True)
    target.write_text(draw() + "\n")

"""Writes a CSV of messages to practise on: `python docs/tutorials/write_texts.py messages.csv`.

What customers write to a shop, with what it is about: put together from parts, so they are easier to tell
apart than what people really write. The same command writes the same messages.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

OPENINGS = [
    "",
    "Hello, ",
    "Hi there, ",
    "Good morning. ",
    "Please help: ",
    "Quick question: ",
    "To whom it may concern, ",
]
THINGS = ["jacket", "lamp", "kettle", "pair of boots", "desk", "headset", "rug", "tent", "backpack", "watch"]
CLOSINGS = [
    "",
    " Thanks!",
    " Thank you in advance.",
    " Please answer soon.",
    " Kind regards.",
    " It is urgent.",
]
MESSAGES = {
    "delivery": [
        "where is my {thing}? It should have arrived {days} days ago",
        "the parcel with the {thing} has not come yet",
        "the tracking of my {thing} has said 'on its way' for {days} days",
        "can you tell me when the {thing} will be delivered",
        "the courier left the {thing} with a neighbour I do not know",
    ],
    "payment": [
        "I was charged twice for the {thing}",
        "my card was refused when I tried to pay for the {thing}",
        "can I get an invoice for the {thing} that I bought {days} days ago",
        "does paying for the {thing} in {days} instalments cost more",
        "the discount code did not take anything off the price of the {thing}",
    ],
    "praise": [
        "the {thing} is wonderful, I could not be happier",
        "best {thing} I have had in {days} years",
        "I love the {thing}, and so does everyone who sees it",
        "great service, and the {thing} is even nicer than in the pictures",
        "I just wanted to say how well made the {thing} is",
    ],
    "return": [
        "I want to send the {thing} back, it does not fit",
        "how do I return the {thing} that I bought {days} days ago",
        "the {thing} came broken and I would like my money back",
        "can I exchange the {thing} for another colour",
        "the {thing} stopped working after {days} days, please take it back",
    ],
}


def message(about: str, random: np.random.Generator) -> str:
    """One message."""
    said = str(random.choice(MESSAGES[about])).format(
        thing=random.choice(THINGS), days=random.integers(2, 20)
    )
    opening = str(random.choice(OPENINGS))
    first = said if opening.endswith((", ", ": ")) else said[0].upper() + said[1:]
    return f"{opening}{first}.{random.choice(CLOSINGS)}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Writes messages of customers, with what they are about.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--count", type=int, default=1600, help="messages in all (1600)")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    random = np.random.default_rng(given.seed)
    with given.file.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        for _ in range(given.count):
            about = str(random.choice(list(MESSAGES)))
            writer.writerow([message(about, random), about])
    print(f"wrote {given.count} messages on {', '.join(MESSAGES)} to {given.file}")


if __name__ == "__main__":
    main()

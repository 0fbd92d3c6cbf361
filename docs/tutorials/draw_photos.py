"""Draws a folder of pictures to practise on: `python docs/tutorials/draw_photos.py photos`.

Four road signs, photographed as it were: turned, near and far, by day and by night, out of focus.
The same command draws the same pictures.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

RED, BLUE, YELLOW, WHITE = (190, 25, 30), (25, 70, 160), (240, 190, 30), (240, 240, 235)
SIDE = 128


def polygon(corners: int, radius: float, turned: float) -> list[tuple[float, float]]:
    """A regular polygon around the middle of a picture."""
    angles = [turned + 2 * math.pi * corner / corners for corner in range(corners)]
    return [(SIDE / 2 + radius * math.cos(angle), SIDE / 2 + radius * math.sin(angle)) for angle in angles]


def stop(draw: ImageDraw.ImageDraw, radius: float) -> None:
    draw.polygon(polygon(8, radius, math.pi / 8), fill=RED, outline=WHITE, width=3)
    draw.rectangle((SIDE / 2 - radius * 0.6, SIDE / 2 - 5, SIDE / 2 + radius * 0.6, SIDE / 2 + 5), fill=WHITE)


def give_way(draw: ImageDraw.ImageDraw, radius: float) -> None:
    draw.polygon(polygon(3, radius, math.pi / 2), fill=WHITE)
    draw.polygon(polygon(3, radius, math.pi / 2), outline=RED, width=max(4, int(radius / 6)))


def priority(draw: ImageDraw.ImageDraw, radius: float) -> None:
    draw.polygon(polygon(4, radius, 0), fill=WHITE)
    draw.polygon(polygon(4, radius * 0.75, 0), fill=YELLOW)


def no_entry(draw: ImageDraw.ImageDraw, radius: float) -> None:
    middle = SIDE / 2
    draw.ellipse((middle - radius, middle - radius, middle + radius, middle + radius), fill=RED)
    draw.rectangle((middle - radius * 0.7, middle - 6, middle + radius * 0.7, middle + 6), fill=WHITE)


SIGNS = {"give-way": give_way, "no-entry": no_entry, "priority": priority, "stop": stop}


def photo(sign: str, random: np.random.Generator) -> Image.Image:
    """One picture, RGB, 128 x 128 pixels."""
    sky, ground = random.integers(60, 200, (2, 3))
    share = np.linspace(0, 1, SIDE)[:, None, None]
    background = np.broadcast_to(sky * (1 - share) + ground * share, (SIDE, SIDE, 3))
    picture = Image.fromarray(background.astype(np.uint8))
    layer = Image.new("RGBA", (SIDE, SIDE))
    SIGNS[sign](ImageDraw.Draw(layer), random.uniform(22, 50))
    moved = layer.rotate(
        random.uniform(-18, 18),
        Image.Resampling.BICUBIC,
        translate=(int(random.integers(-14, 15)), int(random.integers(-14, 15))),
    )
    picture.paste(moved, mask=moved)
    picture = picture.filter(ImageFilter.GaussianBlur(random.uniform(0, 1.6)))
    light = np.asarray(picture, np.float32) * random.uniform(0.35, 1.2) + random.normal(0, 8, (SIDE, SIDE, 3))
    return Image.fromarray(light.clip(0, 255).astype(np.uint8))


def write(folder: Path, count: int, seed: int) -> None:
    """`count` pictures of each sign, as FOLDER/<sign>/<number>.jpg."""
    random = np.random.default_rng(seed)
    for sign in SIGNS:
        (folder / sign).mkdir(parents=True, exist_ok=True)
        for number in range(count):
            photo(sign, random).save(folder / sign / f"{number:03}.jpg", quality=88)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Draws pictures of road signs, a folder for each.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=200, help="pictures of each sign (200)")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    write(given.folder, given.count, given.seed)
    print(f"drew {given.count} pictures each of {', '.join(SIGNS)} in {given.folder}")


if __name__ == "__main__":
    main()

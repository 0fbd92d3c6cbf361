"""Small files that say they hold huge images; made by hand, since no encoder would."""

from __future__ import annotations

import io
import struct
import zlib

from PIL import Image


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(width: int, height: int) -> bytes:
    """A PNG of one bit per pixel, all black, whole where it is small; else its first rows."""
    row = b"\0" * (1 + (width + 7) // 8)
    header = _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0))
    content = _chunk(b"IDAT", zlib.compress(row * min(height, 16)))
    return b"\x89PNG\r\n\x1a\n" + header + content + _chunk(b"IEND", b"")


def jpeg(width: int, height: int) -> bytes:
    """A JPEG of 8 by 8 pixels whose frame header says otherwise."""
    buffer = io.BytesIO()
    Image.new("L", (8, 8)).save(buffer, format="JPEG")
    data = bytearray(buffer.getvalue())
    place = data.index(b"\xff\xc0") + 5
    data[place : place + 4] = struct.pack(">HH", height, width)
    return bytes(data)


def gif(width: int, height: int, screen: int = 8) -> bytes:
    """A GIF of a small screen with a frame that is larger."""
    buffer = io.BytesIO()
    Image.new("P", (8, 8)).save(buffer, format="GIF")
    data = bytearray(buffer.getvalue())
    data[6:10] = struct.pack("<HH", screen, screen)
    place = data.index(b"\x2c") + 5
    data[place : place + 4] = struct.pack("<HH", width, height)
    return bytes(data)


BOMBS = {"png": png(30_000, 30_000), "jpeg": jpeg(60_000, 60_000), "gif": gif(60_000, 60_000)}
"""Kind -> bytes, under a thousand of them each."""

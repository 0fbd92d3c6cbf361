"""Triton's `config.pbtxt`, as text. Standard library only.

config(backend="tensorrt", inputs={"x": ("float32", [28, 28])}, outputs={"scores": ("float32", [10])})
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

CONFIG_FILE = "config.pbtxt"
MAX_BATCH = 64

Tensors = Mapping[str, tuple[str, Sequence[int]]]
"""Name -> data type and shape without the batch; -1 for any size, empty for a number."""

_TYPES = {
    "float16": "TYPE_FP16", "float32": "TYPE_FP32", "float64": "TYPE_FP64", "bfloat16": "TYPE_BF16",
    **{f"{sign}int{bits}": f"TYPE_{sign.upper()}INT{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip


def config(*, backend: str, inputs: Tensors, outputs: Tensors) -> str:
    """The configuration of a model that takes batches of up to 64; Triton fills batches by itself.

    The model's name is left out: Triton takes its folder's.
    """
    return "\n".join(
        [
            f'backend: "{backend}"',
            f"max_batch_size: {MAX_BATCH}",
            *_tensors("input", inputs),
            *_tensors("output", outputs),
            "dynamic_batching { }",
            "",
        ]
    )


def _tensors(kind: str, tensors: Tensors) -> list[str]:
    return [
        f'{kind} [ {{ name: "{name}" data_type: {_TYPES[dtype]} {_dims(shape)} }} ]'
        for name, (dtype, shape) in tensors.items()
    ]


def _dims(shape: Sequence[int]) -> str:
    if not shape:  # Triton takes no empty dims
        return "dims: [ 1 ] reshape: { shape: [ ] }"
    return f"dims: [ {', '.join(map(str, shape))} ]"

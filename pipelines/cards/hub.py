"""What the Hugging Face Hub reads of a repository: a heading of README.md, config.json, .gitattributes.

readme(found, markdown(card)), config(found)
"""

from __future__ import annotations

from typing import Any

import yaml

from pipelines.cards.known import OVERALL, Known

ATTRIBUTES = "".join(
    f"{pattern} filter=lfs diff=lfs merge=lfs -text\n"
    for pattern in ("*.pb", "*.tflite", "*.onnx", "*.plan", "variables/**", "**/variables/**", "assets/**")
)
"""Large and binary files go to the Hub's large file storage."""

_LICENCES = """
afl-3.0 agpl-3.0 apache-2.0 artistic-2.0 bigscience-bloom-rail-1.0 bigscience-openrail-m bsd
bsd-2-clause bsd-3-clause bsd-3-clause-clear bsl-1.0 cc cc-by-2.0 cc-by-2.5 cc-by-3.0 cc-by-4.0 cc-
by-nc-2.0 cc-by-nc-3.0 cc-by-nc-4.0 cc-by-nc-nd-3.0 cc-by-nc-nd-4.0 cc-by-nc-sa-2.0 cc-by-nc-sa-3.0
cc-by-nc-sa-4.0 cc-by-nd-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc0-1.0 cdla-permissive-1.0 cdla-
permissive-2.0 cdla-sharing-1.0 creativeml-openrail-m ecl-2.0 epl-1.0 epl-2.0 etalab-2.0 eupl-1.1
eupl-1.2 gfdl gpl gpl-2.0 gpl-3.0 isc lgpl lgpl-2.1 lgpl-3.0 lppl-1.3c mit mpl-2.0 ms-pl ncsa odbl
odc-by ofl-1.1 openrail openrail++ osl-3.0 pddl postgresql unlicense wtfpl zlib
"""
LICENCES = frozenset(_LICENCES.split())
"""Identifiers that the Hub knows; anything else is `other` with its name."""

_TASKS = {"image": "image-classification", "text": "text-classification", "tabular": "tabular-classification"}
_LIBRARIES = {"litert": "tflite", "onnxruntime": "onnx", "tensorrt": "tensorrt"}


def readme(found: Known, text: str) -> str:
    """The card with the heading that the Hub reads."""
    return f"---\n{yaml.safe_dump(heading(found), sort_keys=False, allow_unicode=True)}---\n\n{text}"


def heading(found: Known) -> dict[str, Any]:
    """Licence, library, task, tags and figures, by the Hub's names."""
    runtime = str(found.servable.get("runtime", ""))
    made: dict[str, Any] = {
        **_licence(str(found.words.get("license") or "")),
        "library_name": _LIBRARIES.get(runtime, "keras"),
        "pipeline_tag": _task(found),
        "tags": ["headrace", "tensorflow", "tf-serving"]
        if runtime == "saved_model"
        else ["headrace", "tensorflow"],
    }
    metrics = [
        {"type": name, "value": value}
        for name, value in found.slices.get(OVERALL, {}).items()
        if name != "example_count"
    ]
    if metrics:
        data = found.view.config.get("data", {})
        name = str(data.get("source") or data.get("path") or "unknown").rstrip("/").rpartition("/")[2]
        result = {
            "task": {"type": made["pipeline_tag"]},
            "dataset": {"name": name, "type": name, "split": "test"},
            "metrics": metrics,
        }
        made["model-index"] = [{"name": found.push.model, "results": [result]}]
    return made


def _licence(given: str) -> dict[str, str]:
    if not given:
        return {}
    known = given.lower()
    return {"license": known} if known in LICENCES else {"license": "other", "license_name": given}


def _task(found: Known) -> str:
    if found.servable and not found.servable.get("class_names"):
        return f"{found.family}-regression" if found.family == "tabular" else "other"
    return _TASKS.get(found.family, "other")


def config(found: Known) -> dict[str, Any]:
    """`config.json`: the classes by number, as the Hub's widgets read them, and how it is called."""
    names = list(found.servable.get("class_names") or ())
    return {
        "model_type": "headrace",
        "architectures": [str(found.view.config.get("model", {}).get("name", ""))],
        "id2label": {str(number): name for number, name in enumerate(names)},
        "label2id": {name: number for number, name in enumerate(names)},
        "servable": dict(found.servable),
    }

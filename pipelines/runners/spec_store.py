"""An object store of this machine, and a container's folder that is copied to and from it.

    store = ObjectStore(root / "store")
    store.download("minio://mlpipeline/v2/...", container_root)
    store.upload(container_root, "minio://mlpipeline/v2/...")

Kubeflow's launcher copies inputs into the container and outputs out of it, by
object keys. What a store cannot hold is lost here too: empty folders, and what
lies outside the artifact's own place. Nothing is shared but through the store.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from pipelines.runners.spec_values import ResolutionError

SCHEMES = {"gs": "gcs", "minio": "minio", "s3": "s3"}
"""Scheme -> the folder at a container's root that the launcher uses for it."""


def local_path(container_root: Path, uri: str) -> Path:
    """Where the launcher puts an artifact, below a folder that stands for a container's `/`.

    Raises:
        ResolutionError: the scheme is none that the launcher knows.
    """
    scheme, separator, rest = uri.partition("://")
    if not separator or scheme not in SCHEMES:
        raise ResolutionError(f"failed to generate local path for URI {uri}: unsupported storage scheme")
    return container_root / SCHEMES[scheme] / rest


class ObjectStore:
    """Objects by URI, as files below a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, uri: str) -> Path:
        """Where an object, or all objects with that prefix, lie."""
        return local_path(self._folder, uri)

    def download(self, container_root: Path, uri: str) -> None:
        """Copies all objects of an artifact into the container; there may be none."""
        source, target = self.path(uri), local_path(container_root, uri)
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
        elif source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True, copy_function=shutil.copyfile)

    def upload(self, container_root: Path, uri: str) -> None:
        """Copies what a container left at an artifact's place; it may have left nothing.

        Raises:
            ResolutionError: a link to a folder lies there, which the launcher cannot read.
        """
        source = local_path(container_root, uri)
        if source.is_file():
            self._put(source, self.path(uri))
        elif source.is_dir():
            for file in sorted(source.rglob("*")):
                if file.is_symlink() and file.is_dir():
                    raise ResolutionError(f"failed to upload {file}: it is a link to a folder")
                if file.is_file():
                    self._put(file, self.path(uri) / file.relative_to(source))

    def _put(self, source: Path, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)

"""What an experiment reads: files, their format, splits, and a digest of their contents.

resolved = resolve(experiment, workspace)
resolved.request, resolved.digest
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from components.errors import DataError
from components.example_gen.request import FeatureRule, Request, Source, SplitBy, SplitPlan
from components.example_gen.sources import SPLIT_FOLDERS, list_images, names_in_list
from components.example_gen.sources import SUFFIXES as IMAGE_SUFFIXES
from components.example_gen.sources import digest as digest_of
from pipelines import digests, remote, spans
from pipelines.config import Experiment
from pipelines.data_stages import Data
from pipelines.datasets import digits, fashion, languages, taxi
from pipelines.errors import InputError
from pipelines.evaluation import is_regression
from pipelines.workspace import Workspace

SUFFIXES = {
    "tfrecord": (".tfrecord", ".tfrecords", ".tfrec", ".gz"),
    "csv": (".csv", ".tsv"),
    "parquet": (".parquet",),
    "avro": (".avro",),
    "jsonl": (".jsonl", ".ndjson"),
}
SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class Resolved:
    """What ExampleGen is asked to do, and the digest that stands for the data."""

    request: Request
    digest: str


def resolve(experiment: Experiment, workspace: Workspace) -> Resolved:
    """Finds the files of an experiment and says how they are read.

    Raises:
        InputError: the path does not exist, cannot be reached, or holds no file of the format.
        ConfigError: a path with spans is not understood.
    """
    data = experiment.data
    if data.source == "digits":
        root = digits.write(workspace.data / "digits")
        return _resolve_files(experiment, _sources([root], "tfrecord", -1), "tfrecord", -1)
    if data.source == "fashion":
        root = fashion.write(workspace.data / "fashion")
        sources = [Source(str(path), split=path.parent.name) for path in sorted(root.glob("*/*.tfrecord"))]
        return _resolve_files(experiment, sources, "tfrecord", -1)
    if data.source == "taxi":
        return _resolve_files(experiment, _sources([taxi.path()], "csv", -1), "csv", -1)
    if data.source == "languages":
        found = [languages.write(workspace.data / "languages")]
        return _resolve_files(experiment, _sources(found, "csv", -1), "csv", -1)
    path = remote.expanded(data.path or "")
    if spans.has_spans(path):
        return _resolve_spans(experiment, path, workspace)
    found = _fetched(path, data, workspace) if remote.is_remote(path) else _existing(path)
    if _is_images(data, found):
        return _resolve_images(experiment, _one_folder(data, found))
    data_format = _format(data, found)
    if data.splits.by == "auto":
        _check_named(found, data_format)
    return _resolve_files(experiment, _sources(found, data_format, -1), data_format, -1)


def _existing(path: str) -> list[Path]:
    if Path(path).exists():
        return [Path(path).absolute()]
    found = sorted(Path(name).absolute() for name in glob.glob(path, recursive=True))
    if not found:
        raise InputError(
            "The data path does not exist", place=path, remedy="Check data.path (--set data.path=...)."
        )
    return found


def _fetched(url: str, data: Data, workspace: Workspace) -> list[Path]:
    """Local copies of what is at an address: a file, a folder, or what matches a glob."""
    if glob.has_magic(url):
        return remote.fetch_matches(url, workspace.fetched, _wanted(data.format))
    found = remote.fetch(url, workspace.fetched, _wanted(data.format))
    if data.format != "images" or not found.is_file():
        return [found]
    # A list of images: they lie beside it.
    folder, _, name = url.rpartition("/")
    files = dict.fromkeys([name, *names_in_list(found)])
    return [remote.fetch_names(f"{folder}/", list(files), workspace.fetched) / name]


@cache
def _wanted(data_format: str) -> remote.Wanted:
    """Chooses among the names in a folder elsewhere, so that nothing is transferred in vain.

    Tables lie right in it, images in folders; where the format is not said,
    they are images where there is no table.
    """
    known = SUFFIXES.get("csv" if data_format == "tsv" else data_format)
    tables = known or tuple(suffix for suffixes in SUFFIXES.values() for suffix in suffixes)

    def wanted(names: Sequence[str]) -> Sequence[str]:
        right = [name for name in names if "/" not in name and name.lower().endswith(tables)]
        if known or (right and data_format != "images"):
            return right
        return [name for name in names if name.lower().endswith(IMAGE_SUFFIXES)]

    return wanted


def _resolve_spans(experiment: Experiment, pattern: str, workspace: Workspace) -> Resolved:
    data = experiment.data
    if data.format == "images":
        raise InputError(
            "Images are not read by spans",
            place=f"data.path: {pattern}",
            remedy="Name one folder; or write the spans as TFRecord files of tf.train.Examples.",
        )
    chosen = spans.of(data, pattern)
    located = [(item.span, _located(item.path, data, workspace)) for item in chosen]
    data_format = _format(data, [path for _, path in located])
    sources = [source for span, path in located for source in _sources([path], data_format, span)]
    # A first span alone is split like any data: held out, it would leave nothing to train on.
    held_out = chosen[-1].span if len({item.span for item in chosen}) > 1 else -1
    return _resolve_files(experiment, sources, data_format, held_out)


def _located(path: str, data: Data, workspace: Workspace) -> Path:
    if not remote.is_remote(path):
        return Path(path)
    return remote.fetch(path, workspace.fetched, _wanted(data.format))


def _is_images(data: Data, found: Sequence[Path]) -> bool:
    """Images where that is said, or where a folder holds folders and no file of another format."""
    if data.format != "auto" or len(found) != 1 or not found[0].is_dir():
        return data.format == "images"
    known = {suffix for suffixes in SUFFIXES.values() for suffix in suffixes}
    children = [child for child in found[0].iterdir() if not child.name.startswith(".")]
    return any(child.is_dir() for child in children) and not any(
        child.suffix.lower() in known for child in children if child.is_file()
    )


def _one_folder(data: Data, found: Sequence[Path]) -> Path:
    if len(found) > 1:
        raise InputError(
            f"Images are read from one folder, or one list; the path names {len(found)}",
            place=f"{data.path}: {', '.join(path.name for path in found[:3])}",
            remedy="Put the folders together, or name the images in a CSV of file,label.",
        )
    return found[0]


def _format(data: Data, found: Sequence[Path]) -> str:
    """The format that is said, or that the files' endings tell; a TSV is a CSV with tabs."""
    if data.format != "auto":
        return "csv" if data.format == "tsv" else data.format
    names = [child for path in found for child in (path.iterdir() if path.is_dir() else [path])]
    formats = {
        name for name, suffixes in SUFFIXES.items() for path in names if path.suffix.lower() in suffixes
    }
    if len(formats) == 1:
        return formats.pop()
    what = (
        f"files of several formats ({', '.join(sorted(formats))})"
        if formats
        else "no files of a known format"
    )
    endings = ", ".join(suffix for suffixes in SUFFIXES.values() for suffix in suffixes)
    raise InputError(
        f"The data holds {what}",
        place=", ".join(map(str, found[:3])),
        remedy=f"Name the format (data.format). Known endings: {endings}; images lie in class folders.",
    )


def _sources(found: Iterable[Path], data_format: str, span: int) -> list[Source]:
    """The files themselves, and the files of that format in folders."""
    sources = []
    for path in found:
        if path.is_file():
            sources.append(Source(str(path), span=span))
            continue
        inside = sorted(child for child in path.iterdir() if child.suffix.lower() in SUFFIXES[data_format])
        if not inside:
            others = sum(1 for child in path.iterdir() if child.is_file())
            endings = ", ".join(SUFFIXES[data_format])
            raise InputError(
                f"The data folder holds no {data_format} files ({others} other files)",
                place=str(path),
                remedy=f"Files should end in {endings}; a file of another name is given by its path.",
            )
        sources.extend(Source(str(child), split=_named_split(child, inside), span=span) for child in inside)
    return sources


def _check_named(found: Iterable[Path], data_format: str) -> None:
    """Raises an InputError where some files are named as splits, and another beside them is not.

    All of them would be split by hash, and what was held out be trained on.
    """
    for folder in (path for path in found if path.is_dir()):
        inside = sorted(item for item in folder.iterdir() if item.suffix.lower() in SUFFIXES[data_format])
        splits = {item.name: SPLIT_FOLDERS.get(item.name.split(".")[0].lower(), "") for item in inside}
        others = [name for name, split in splits.items() if not split]
        if others and len({split for split in splits.values() if split}) > 1:
            named = ", ".join(name for name, split in splits.items() if split)
            raise InputError(
                f"Some files are named as splits ({named}), and {others[0]!r} beside them is not",
                place=str(folder),
                remedy="Move it away, or set data.splits.by=hash to split all of them anew.",
            )


def _named_split(path: Path, beside: Sequence[Path]) -> str:
    """The split that a file's name says, where all files of its folder are named so, such as test.csv."""
    names = [SPLIT_FOLDERS.get(child.name.split(".")[0].lower(), "") for child in beside]
    return SPLIT_FOLDERS[path.name.split(".")[0].lower()] if all(names) and "train" in names else ""


def _resolve_files(
    experiment: Experiment, sources: Sequence[Source], data_format: str, test_span: int
) -> Resolved:
    named = any(source.split for source in sources)
    split = _split_plan(experiment.data, has_folders=named, test_span=test_span)
    tabbed = experiment.data.format == "tsv" or all(
        source.path.lower().endswith(".tsv") for source in sources
    )
    options = {
        "delimiter": experiment.data.delimiter or ("\t" if tabbed else ","),
        "encoding": experiment.data.encoding,
    }
    request = _request(experiment, tuple(sources), data_format, split, options)
    return Resolved(request, digest(source.path for source in sources))


def _resolve_images(experiment: Experiment, root: Path) -> Resolved:
    family = experiment.model.family
    if family != "image":
        raise InputError(
            f"The data is images, and model.family={family} reads none",
            place=str(root),
            remedy="Set model.family: image, or name the data's format (data.format).",
        )
    try:
        sources, _ = list_images(root)
    except DataError as error:
        raise InputError(error.headline, place=error.place, remedy=error.remedy) from error
    split = _split_plan(experiment.data, has_folders=any(source.split for source in sources), test_span=-1)
    folder = root if root.is_dir() else root.parent
    # The node lists the images itself: a million paths would not fit a property.
    options = {"list": str(root), "root": str(folder)}
    request = _request(experiment, (), "images", split, options)
    paths = [source.path for source in sources] + ([str(root)] if root.is_file() else [])
    return Resolved(request, digest(paths))


def _split_plan(data: Data, *, has_folders: bool, test_span: int) -> SplitPlan:
    settings = data.splits
    by: SplitBy = ("folder" if has_folders else "hash") if settings.by == "auto" else settings.by
    if by == "folder" and not has_folders:
        raise InputError(
            "The data has no folders train/, validation/ or test/ (or files named so) to split by",
            place=data.path or "",
            remedy="Use data.splits.by=hash.",
        )
    if by == "time" and not settings.key:
        raise InputError(
            "A split by time needs the feature with the time", place="data.splits.key", remedy="Name it."
        )
    shares = tuple((name, int(getattr(settings, name))) for name in SPLITS)
    return SplitPlan(by, shares, settings.key, test_span)


def _request(
    experiment: Experiment,
    sources: tuple[Source, ...],
    data_format: str,
    split: SplitPlan,
    options: dict[str, str],
) -> Request:
    data = experiment.data
    return Request(
        sources=sources,
        format=data_format,
        split=split,
        features=_rules(experiment),
        label=data.label,
        exclude=tuple(data.exclude),
        options=options,
        on_bad_record=data.on_bad_record,
        max_bad_fraction=data.max_bad_fraction,
        damaged_files=data.damaged_files,
        missing_values=tuple(data.missing_values),
        classes=not is_regression(experiment),
    )


def _rules(experiment: Experiment) -> tuple[FeatureRule, ...]:
    """What every record must have: by the model's family."""
    return RULES[experiment.model.family](experiment.data)


def image_rules(data: Data) -> tuple[FeatureRule, ...]:
    return (FeatureRule(data.image, "image"), FeatureRule(data.label, "string"))


def table_rules(data: Data) -> tuple[FeatureRule, ...]:
    return (FeatureRule(data.label, "any"),)


def text_rules(data: Data) -> tuple[FeatureRule, ...]:
    """The text, its second part where the data has pairs, and the label, all as bytes."""
    texts = [name for name in (data.text, data.text_pair) if name]
    return (*(FeatureRule(name, "text") for name in texts), FeatureRule(data.label, "string"))


RULES: dict[str, Callable[[Data], tuple[FeatureRule, ...]]] = {
    "image": image_rules,
    "tabular": table_rules,
    "text": text_rules,
}
"""Family of models -> what every record must have."""


def digest(files: Iterable[str]) -> str:
    """SHA-256 over the names and contents of files.

    Raises:
        InputError: a file cannot be read.
    """
    names = list(files)
    try:
        contents = digests.of_files([Path(name) for name in names])
    except OSError as error:
        raise InputError(
            f"A data file cannot be read: {error.strerror}",
            place=str(error.filename),
            remedy="Check its permissions.",
        ) from error
    return digest_of(zip(names, contents, strict=True))


def digest_of_tree(path: Path) -> str:
    """The digest of a file, or of all files below a folder.

    Raises:
        InputError: a file cannot be read.
    """
    files = sorted(item for item in path.rglob("*") if item.is_file()) if path.is_dir() else [path]
    return digest(map(str, files))

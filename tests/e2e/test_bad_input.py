"""Bad input: one clear error that names file and record, exit 2, and a workspace that still works."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.waiting import wait_until

pytestmark = pytest.mark.e2e

MAX_ERROR_LINES = 3


@pytest.fixture
def records(make_example, png) -> list[bytes]:
    """120 sound records of two classes that can be told apart."""
    rng = np.random.default_rng(5)
    return [
        make_example(image=png(rng.integers(0, 100, (8, 8)) + 120 * (number % 2)), label="ab"[number % 2])
        for number in range(120)
    ]


@pytest.fixture
def run(headrace, tmp_path) -> Callable[..., object]:
    """Runs the data part of an experiment on a path, in a workspace of the test's own."""

    def go(
        path: Path, *more: str, to: str = "ExampleGen", workspace: Path | None = None, meanwhile=None
    ) -> object:
        experiment = tmp_path / "own.yaml"
        experiment.write_text(
            f"data: {{path: {path}}}\nmodel: {{height: 8, width: 8, channels: 1, filters: [8]}}\n"
        )
        root = workspace or tmp_path / "workspace"
        return headrace(
            "run", str(experiment), "--workspace", str(root), "--to", to, *more, meanwhile=meanwhile
        )

    return go


def assert_user_error(done, *expected: str) -> None:
    assert done.code == 2, done.err
    lines = done.err.strip().splitlines()
    assert len(lines) <= MAX_ERROR_LINES, done.err
    assert lines[0].startswith("Error: ")
    for text in expected:
        assert text in done.err


def assert_still_works(run, tmp_path, write_tfrecord, records) -> None:
    good = write_tfrecord(tmp_path / "good" / "a.tfrecord", records)
    assert run(good).code == 0


def test_a_missing_path(run, tmp_path) -> None:
    assert_user_error(run(tmp_path / "nowhere"), "The data path does not exist", "nowhere")


def test_an_empty_folder(run, tmp_path) -> None:
    (tmp_path / "empty").mkdir()
    assert_user_error(run(tmp_path / "empty"), "no files of a known format", str(tmp_path / "empty"))


def test_a_truncated_file_names_the_record(run, tmp_path, write_tfrecord, records) -> None:
    path = write_tfrecord(tmp_path / "data" / "cut.tfrecord", records)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) - 20])
    assert_user_error(run(path), "A TFRecord file is damaged", f"{path}, record 119")
    assert_still_works(run, tmp_path, write_tfrecord, records)


def test_a_truncated_gzip_file(run, tmp_path, write_tfrecord, records) -> None:
    path = write_tfrecord(tmp_path / "data" / "cut.tfrecord.gz", records, "GZIP")
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    assert_user_error(run(path), "A TFRecord file is damaged", str(path))


def test_a_flipped_bit_names_the_record(run, tmp_path, write_tfrecord, records) -> None:
    path = write_tfrecord(tmp_path / "data" / "flipped.tfrecord", records)
    data = bytearray(path.read_bytes())
    # A TFRecord is 8 + 4 bytes of head, the record, 4 bytes of checksum.
    start_of_second = 16 + len(records[0])
    data[start_of_second + 12 + 30] ^= 1
    path.write_bytes(bytes(data))
    assert_user_error(run(path), "A TFRecord file is damaged", f"{path}, record 1")


def test_a_record_that_is_no_example(run, tmp_path, write_tfrecord, records) -> None:
    path = write_tfrecord(tmp_path / "data" / "a.tfrecord", [*records[:7], b"no example", *records[7:]])
    assert_user_error(run(path), "it is no tf.train.Example", f"{path}, record 7")


def test_a_missing_feature(run, tmp_path, write_tfrecord, records, make_example, png) -> None:
    path = write_tfrecord(tmp_path / "data" / "a.tfrecord", [*records, make_example(image=png())])
    assert_user_error(run(path), "feature 'label' is missing; present: image", "record 120")


def test_a_wrong_type_counts_all_bad_records(
    run, tmp_path, write_tfrecord, records, make_example, png
) -> None:
    bad = make_example(image=png(), label=4)
    path = write_tfrecord(tmp_path / "data" / "a.tfrecord", [*records, bad, bad])
    assert_user_error(
        run(path),
        "feature 'label' should hold bytes; received integers (2 bad records or files in all)",
        "record 120",
    )


def test_an_undecodable_image(run, tmp_path, write_tfrecord, records, make_example) -> None:
    bad = make_example(image=b"\x89PNG\r\n\x1a\nrubbish", label="a")
    path = write_tfrecord(tmp_path / "data" / "a.tfrecord", [*records[:3], bad, *records[3:]])
    assert_user_error(run(path), "is no JPEG, PNG, GIF or BMP image that decodes", f"{path}, record 3")


def test_a_single_class(run, tmp_path, write_tfrecord, records, make_example, png) -> None:
    same = [make_example(image=png(number), label="only") for number in range(120)]
    path = write_tfrecord(tmp_path / "data" / "a.tfrecord", same)
    assert_user_error(run(path), "There is a single class, 'only'", "feature 'label'")


def test_a_split_that_comes_out_empty(run, tmp_path, write_tfrecord, records) -> None:
    path = write_tfrecord(tmp_path / "data" / "a.tfrecord", records[:3])
    assert_user_error(run(path), "came out empty: 3 examples in all", "data.splits")


def test_a_class_without_training_examples(run, tmp_path, write_tfrecord, records, make_example, png) -> None:
    rare = _in_test_split(make_example(image=png(level), label="rare") for level in range(256))
    path = write_tfrecord(tmp_path / "data" / "a.tfrecord", [*records, rare])
    assert_user_error(run(path), "The class 'rare' has no training example", "feature 'label'")


def _in_test_split(candidates: Iterator[bytes]) -> bytes:
    from components.example_gen.split import bucket_split

    shares = (("train", 6), ("validation", 2), ("test", 2))
    return next(record for record in candidates if bucket_split(record, shares) == "test")


def test_an_unwritable_workspace(run, tmp_path, write_tfrecord, records) -> None:
    path = write_tfrecord(tmp_path / "data" / "a.tfrecord", records)
    (tmp_path / "file").write_text("in the way")
    assert_user_error(
        run(path, workspace=tmp_path / "file"), "The workspace cannot be written", "--workspace"
    )


def test_a_damaged_metadata_store(run, tmp_path, write_tfrecord, records) -> None:
    path = write_tfrecord(tmp_path / "data" / "a.tfrecord", records)
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "metadata.db").write_text("this is no database" * 100)
    assert_user_error(run(path), "The metadata store is damaged", "metadata.db", "backup")


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Callable[[int], Path]]:
    """Mounts a small tmpfs; skips where that is not allowed."""
    mounted: list[Path] = []

    def make(mebibytes: int) -> Path:
        folder = tmp_path / f"disk{mebibytes}"
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", str(folder)]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("mounting a tmpfs needs root")
        mounted.append(folder)
        return folder

    yield make
    for folder in mounted:
        subprocess.run(["umount", "--lazy", str(folder)], check=False)


def test_a_full_disk_is_seen_before_the_run(run, tmp_path, write_tfrecord, records, small_disk) -> None:
    path = write_tfrecord(tmp_path / "data" / "a.tfrecord", records)
    assert_user_error(run(path, workspace=small_disk(64) / "w"), "The disk is full", "Free space")


def test_a_disk_that_fills_up_in_the_middle(
    run, tmp_path, write_tfrecord, records, make_example, png, small_disk
) -> None:
    """The disk has room at the start, and none when ExampleGen writes; with room again the run goes on."""
    disk = small_disk(300)
    rng = np.random.default_rng(1)
    large = [
        make_example(image=png(rng.integers(0, 256, (512, 512, 3))), label="ab"[number % 2])
        for number in range(30)
    ]
    path = write_tfrecord(tmp_path / "data" / "large.tfrecord", large)
    filler = disk / "filler"

    def fill_when_it_has_begun(pid: int) -> None:
        wait_until(lambda: any((disk / "w" / "runs").glob("*/events.jsonl")))
        with open(filler, "wb") as file, contextlib.suppress(OSError):
            while True:  # the run writes too, so how much is free is known when it is gone
                file.write(bytes(1 << 20))
                file.flush()
        os.truncate(filler, filler.stat().st_size - (8 << 20))

    done = run(path, workspace=disk / "w", meanwhile=fill_when_it_has_begun)
    assert_user_error(done, "The disk is full; node ExampleGen could not write")
    filler.unlink()
    assert run(path, workspace=disk / "w").code == 0


def test_a_workspace_that_became_read_only(
    run, headrace, tmp_path, write_tfrecord, records, small_disk
) -> None:
    """No run begins; what was recorded can still be listed, or a command says what it needs."""
    disk = small_disk(600)
    path = write_tfrecord(tmp_path / "data" / "a.tfrecord", records)
    assert run(path, workspace=disk / "w").code == 0
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    assert_user_error(run(path, workspace=disk / "w"), "The workspace cannot be written", "--workspace")
    listed = headrace("runs", "--workspace", str(disk / "w"))
    assert listed.code == 2 or "complete" in listed.out, listed.err
    shown = headrace("show", "latest", "--workspace", str(disk / "w"))
    assert_user_error(shown, "The metadata store cannot be written", "metadata.db")
    subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    assert run(path, workspace=disk / "w").code == 0


def test_a_record_that_is_damaged_in_the_middle(run, headrace, tmp_path, write_tfrecord, records) -> None:
    """The error names the copy that the first run left; with it in place all goes on."""
    path = write_tfrecord(tmp_path / "data" / "a.tfrecord", records)
    assert run(path).code == 0
    record = tmp_path / "workspace" / "metadata.db"
    damaged = bytearray(record.read_bytes())
    damaged[8192:65536] = os.urandom(65536 - 8192)
    record.write_bytes(damaged)
    failed = run(path)
    assert_user_error(failed, "The metadata store is damaged", str(record), "cp ")
    command = failed.err.partition("put back: ")[2] or failed.err.partition("copy back: ")[2]
    source, target = command.partition("cp ")[2].split(";")[0].split()
    assert target == str(record)
    record.write_bytes(Path(source).read_bytes())
    assert run(path).code == 0

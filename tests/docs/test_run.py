"""The blocks of the pages, run as a reader would: long, since some of them train.

Pages that rely on a workspace with `headrace run digits` in it and train nothing are
run by `tests/e2e/test_digits.py`, which has one.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ON_DIGITS, PAGES, blocks, name_of
from tests.docs.shell import BlockError, Shell, run_page

TUTORIALS = [page for page in PAGES if page.parent.name == "tutorials"]
GUIDES = [
    page
    for page in PAGES
    if page.is_relative_to(DOCS)
    and page not in (*TUTORIALS, *ON_DIGITS)
    and any(True for language in ("bash", "python") for _ in blocks(page, language))
]


def test_a_block_that_fails_is_told_with_its_place(tmp_path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page\n\n```bash\necho one\n```\n\n```bash\nfalse\necho two\n```\n")
    (tmp_path / "there").mkdir()
    with (
        Shell(tmp_path / "there") as shell,
        pytest.raises(BlockError, match=r"page\.md, line 7: exit code 1\ntwo"),
    ):
        run_page(page, shell)


def test_blocks_share_a_shell_and_files(tmp_path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```bash\nword=seen\n```\n\n```yaml\n# own.yaml: a file\ndata: 1\n```\n\n"
        '<!-- skip: next "not here" -->\n```bash\nfalse\n```\n\n'
        "<!-- exits: 0 3 -->\n```bash\ngrep -q data own.yaml && (exit 3)\n```\n\n"
        "```python\nopen('made', 'w').write('x')\n```\n\n```bash\ntest $word = seen && test -s made\n```\n"
    )
    (tmp_path / "there").mkdir()
    with Shell(tmp_path / "there") as shell:
        assert run_page(page, shell) == 5


@pytest.mark.slow
@pytest.mark.parametrize("page", TUTORIALS, ids=name_of)
def test_a_tutorial_from_nothing(page: Path, tmp_path) -> None:
    with Shell(tmp_path) as shell:
        assert run_page(page, shell) > 3


@pytest.fixture(scope="module")
def digits(tmp_path_factory) -> Path:
    """A folder in which `headrace run digits` has been run."""
    folder = tmp_path_factory.mktemp("digits")
    with Shell(folder) as shell:
        shell.bash("headrace run digits")
    return folder / "workspace"


@pytest.mark.slow
@pytest.mark.parametrize("page", GUIDES, ids=name_of)
def test_a_guide_after_the_run_of_digits(page: Path, digits: Path, tmp_path) -> None:
    with Shell(tmp_path, digits) as shell:
        shell.bash("headrace run digits")  # from the cache: the latest run is whole, and of digits
        run_page(page, shell)


def test_every_page_that_is_named_is_there() -> None:
    assert [page for page in ON_DIGITS if not page.exists()] == []

"""A browser for the tests of pages."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.browser import Page


@pytest.fixture
def chromium(tmp_path: Path) -> Iterator[Page]:
    browser = Page(tmp_path / "profile")
    yield browser
    browser.close()

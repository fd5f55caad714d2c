"""One browser for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.drivers.browser import Browser


@pytest.fixture(scope="module")
def shared_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser")) as running:
        yield running


@pytest.fixture
def browser(shared_browser: Browser) -> Iterator[Browser]:
    """A browser whose page had no error when the test is over."""
    shared_browser.look(width=1280, height=900)
    shared_browser.open("about:blank")
    shared_browser.errors()
    yield shared_browser
    # The page's streams end with it.
    shared_browser.open("about:blank")
    assert shared_browser.errors() == []

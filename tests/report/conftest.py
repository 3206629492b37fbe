"""One browser for all tests of the report."""

import pytest

from support.browser import Tabs, open_browser


@pytest.fixture(scope="package")
def browser():
    with open_browser() as found:
        yield found


@pytest.fixture(scope="package")
def tabs(browser):
    return Tabs(browser)

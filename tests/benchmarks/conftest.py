"""Collects what benchmarks measure and prints it as one table at the end."""

from collections.abc import Callable

import pytest

ROWS: list[tuple[str, str, str]] = []


@pytest.fixture
def record() -> Callable[[str, str, str], None]:
    """Adds a line to the table: what was measured, the value with its unit, the limit if any."""

    def add(what: str, value: str, limit: str = "") -> None:
        ROWS.append((what, value, limit))

    return add


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not ROWS:
        return
    widths = [max(len(row[i]) for row in ROWS) for i in range(2)]
    terminalreporter.section("measured")
    for what, value, limit in ROWS:
        line = f"{what.ljust(widths[0])}  {value.rjust(widths[1])}  {limit}"
        terminalreporter.write_line(line.rstrip())

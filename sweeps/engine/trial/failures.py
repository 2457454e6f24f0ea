"""What happens after a failure: which trials are retried, and which are not started.

lost and oom are retried a bounded number of times per launch. An error is a bug or a bad
configuration: the same one twice in a cell stops the rest of that cell, the same one in several
cells before anything succeeded stops the launch, and a results folder that cannot be written stops
it at once. diverged is a result.
"""

from collections import Counter

MAX_TRIES = 3  # in one launch, of a trial that is lost or out of memory each time
SAME_ERROR = 2  # times in one cell until its other trials are stopped
SAME_ERROR_EVERYWHERE = 5  # cells with nothing finished until all trials are stopped


class FailurePolicy:
    """Decides during a launch which trials are no longer started."""

    def __init__(self) -> None:
        self.by_cell: Counter[tuple[str, str]] = Counter()
        self.any_ok = False
        self.stopped_cells: dict[str, str] = {}
        self.stopped_all = ""

    def record(self, cell: str, status: str, error: str) -> None:
        """An attempt at a trial of this cell ended."""
        self.any_ok = self.any_ok or status in ("ok", "diverged", "done")
        if status in ("unsaved", "interrupted"):
            self.stopped_all = error
        if status != "error":
            return
        last = last_line(error)
        self.by_cell[cell, last] += 1
        if self.by_cell[cell, last] >= SAME_ERROR:
            self.stopped_cells[cell] = f"the same error twice: {last}"
        cells = {c for c, text in self.by_cell if text == last}
        if not self.any_ok and len(cells) >= SAME_ERROR_EVERYWHERE:
            self.stopped_all = f"the same error in {len(cells)} cells, nothing finished: {last}"

    def stop_reason(self, cell: str) -> str:
        """Why trials of this cell should not be started; empty if they should."""
        return self.stopped_all or self.stopped_cells.get(cell, "")


def last_line(error: str) -> str:
    """The line of a traceback that says what happened."""
    return (error.strip().splitlines() or [""])[-1]

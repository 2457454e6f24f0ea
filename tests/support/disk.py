"""Files of tests need not survive a power failure."""


def dont_wait(number: int) -> None:
    """In place of `os.fsync`, which takes 5 to 20 ms of a disk; tests write thousands of files."""

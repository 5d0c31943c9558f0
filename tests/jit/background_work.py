"""The work of the assembler that earlier tests have left behind."""

from tilewright.jit.cache import memory


def finish_background_work() -> None:
    """Wait for it: it would use the doubles of the next test, and be counted there."""
    for task in list(memory._background._under_way):
        task.join()

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tilewright.cli import main
from tilewright.settings import current_settings

SAMPLES = Path(__file__).parent / "cli_samples.py"


@pytest.fixture
def run() -> Callable[..., Result]:
    """Call the command line; an exception that is not told to the user fails the test."""

    def call(*args: object, columns: int = 120) -> Result:
        runner = CliRunner(env={"COLUMNS": str(columns)})
        result = runner.invoke(main, [str(arg) for arg in args])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert "Traceback" not in result.output
        return result

    return call


@pytest.fixture
def sample() -> Callable[[str], str]:
    """The address of a kernel of `cli_samples.py`."""
    return lambda name: f"{SAMPLES}::{name}"


@pytest.fixture
def no_toolkit(monkeypatch, tmp_path) -> Path:
    """A process whose settings lead to an empty toolkit."""
    monkeypatch.setenv("TILEWRIGHT_TOOLKIT", str(tmp_path))
    current_settings.cache_clear()
    yield tmp_path
    monkeypatch.undo()
    current_settings.cache_clear()

"""Expected refusals, by a part of their message."""

import re

import pytest

from tilewright.errors import LaunchError


def refuse(text, error=LaunchError):
    return pytest.raises(error, match=re.escape(text))

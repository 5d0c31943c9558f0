"""`python -m tilewright.native`: build the extension in place."""

import sys

from tilewright.native.build import build
from tilewright.native.checksum import checksum

__all__ = ["main"]


def main() -> None:
    """Build the extension, and show its path."""
    sys.stdout.write(f"{build(checksum())}\n")


if __name__ == "__main__":
    main()

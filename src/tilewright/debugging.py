"""`tw.debug`: the named tiles of one block, from a launch on the CPU.

The kernel is compiled anew, with an observer of every name that is bound, and the launch runs as
usual: outputs are written, refusals and failures are raised. Names of helper functions are not
shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tilewright.errors import LaunchError
from tilewright.ir.inspections import Sighting
from tilewright.kernel import GridLaunch, Kernel
from tilewright.runtime.devices.device import device

__all__ = ["BlockTiles", "BoundTile", "debug"]


class BoundTile(NamedTuple):
    """One value of a name, and the line that bound it."""

    line: int
    value: Any  # an array, a NumPy scalar, or a tuple of such


class BlockTiles(Mapping[str, Any]):
    """The named tiles of one block as NumPy arrays: `tiles["product"]` is the last value.

    `tiles.history["product"]` has every value that the name had, in order, with its line.
    """

    def __init__(self, kernel: str, block: tuple[int, ...]) -> None:
        self.kernel = kernel
        self.block = block
        self.history: dict[str, list[BoundTile]] = {}

    def __getitem__(self, name: str) -> Any:
        return self.history[name][-1].value

    def __iter__(self) -> Iterator[str]:
        return iter(self.history)

    def __len__(self) -> int:
        return len(self.history)

    def __repr__(self) -> str:
        lines = [f"<block {self.block} of {self.kernel}"]
        for name, bound in self.history.items():
            times = f", bound {len(bound)} times" if len(bound) > 1 else ""
            lines.append(f"  {name}: {_described(bound[-1].value)}, line {bound[-1].line}{times}")
        return "\n".join(lines) + ">"


def debug(
    kernel: Kernel | GridLaunch, /, *args: Any, block: int | tuple[int, ...] = (), **kwargs: Any
) -> BlockTiles:
    """Run a launch on the CPU and give the named tiles of one block.

    The arguments are those of the launch, on the CPU: `tw.debug(add, z.partition(64), x, y,
    block=3)`. `kernel` may have a grid, `k.grid(8)`. Without `block` it is the first block.
    """
    launched = kernel.kernel if isinstance(kernel, GridLaunch) else kernel
    if not isinstance(launched, Kernel):
        raise LaunchError(f"tw.debug takes a kernel and its arguments, not {type(kernel).__name__}")
    collector = _Collector((block,) if isinstance(block, int) else tuple(block))
    observed = launched.observed(collector.see)
    grid = kernel.extents if isinstance(kernel, GridLaunch) else None
    with device("cpu"):
        operation = observed.launch(grid, args, kwargs, unsafe=launched.options.unsafe)
        if operation.device.kind != "cpu":
            operation.close()
            raise LaunchError(
                f"tw.debug looks at blocks on the CPU, and these tensors are on"
                f" {operation.device.name}: copy them, `tw.from_numpy(x.numpy(), device=…)`"
            )
        operation.sync()
    if collector.tiles is None:
        raise LaunchError(collector.why_nothing(launched.__name__))
    return collector.tiles


class _Collector:
    """Keeps the sightings of one block."""

    def __init__(self, block: tuple[int, ...]) -> None:
        self._block = block
        self._last: tuple[int, ...] | None = None  # block that was seen
        self.tiles: BlockTiles | None = None

    def see(self, sighting: Sighting) -> None:
        """Keep the values of a sighting in the chosen block."""
        self._last = sighting.block
        wanted = self._block or (0,) * len(sighting.block)
        if sighting.block != wanted:
            return
        if self.tiles is None:
            self.tiles = BlockTiles(sighting.kernel, sighting.block)
        for name, value in sighting.names.items():
            bound = BoundTile(sighting.span.line, value)
            self.tiles.history.setdefault(name, []).append(bound)

    def why_nothing(self, kernel: str) -> str:
        """The reason why no tile was seen."""
        if self._last is None:
            return f"no block of kernel `{kernel}` binds a name to a tile"
        return (
            f"kernel `{kernel}` binds no name in block {self._block or 'zero'}; the last block that"
            f" does is {self._last}"
        )


def _described(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_described, value))})"
    shape, dtype = getattr(value, "shape", ()), getattr(value, "dtype", type(value).__name__)
    return f"{dtype}{list(shape)}" if shape else f"{dtype} {value}"

"""Programs of cuTile Python on the CPU, unchanged, with race detection.

```py
from tilewright import cutile

cutile.launch(None, grid, kernel, arguments)  # like `cuda.tile.launch`, on arrays of the host

with cutile.on_cpu(race_check=True):  # or, for a whole program: `tilewright cutile program.py`
    run_the_program()
```

cuTile's own compiler turns a kernel into Tile IR, which our CPU backend runs. NumPy arrays and
torch CPU tensors are arguments. `cuda-tile` must be installed; a GPU is not needed.
"""

from tilewright.cutile.launching import Behaviour, launch
from tilewright.cutile.pretending import on_cpu

__all__ = ["Behaviour", "launch", "on_cpu"]

"""Programs of cuTile Python on the CPU, unchanged, with a watch for races.

```py
from tilewright import cutile

cutile.launch(None, grid, kernel, arguments)  # like `cuda.tile.launch`, on arrays of the host

with cutile.on_cpu(race_check=True):  # or for a program as it is: `tilewright cutile program.py`
    run_the_program()
```

cuTile's own compiler turns a kernel into Tile IR, and our CPU backend runs that. Arrays of NumPy
and torch's tensors on the CPU are arguments. `cuda-tile` has to be installed; a GPU has not.
"""

from tilewright.cutile.launching import Behaviour, launch
from tilewright.cutile.pretending import on_cpu

__all__ = ["Behaviour", "launch", "on_cpu"]

"""Scale a vector in place through raw pointers: an unsafe block gives the reason for its soundness.

`tilewright check examples/pointers.py` lists the block with its reason, and `tilewright explain`
searches for a launch that breaks it.
"""

import numpy as np

import tilewright as tw
from tilewright import Const, Ptr, f32, i32


@tw.kernel(unsafe=True)
def scale(p: Ptr[f32], n: i32, factor: f32, *, B: Const[int] = 64) -> None:
    """`p[:n] *= factor`: block b of m takes the ranges b, b + m, b + 2m, … of B elements."""
    with tw.unsafe("the mask ends at n, and no two blocks take the same stretch"):
        for turn in range(tw.cdiv(n, tw.num_blocks() * B)):
            at = (turn * tw.num_blocks() + tw.block_id()) * B + tw.arange(B)
            pointers = p + at
            tw.store(pointers, tw.load(pointers, mask=at < n) * factor, mask=at < n)


def main() -> None:
    """Scale a thousand elements with four blocks."""
    x = tw.arange(1000, f32)
    scale.grid(4).unsafe(x, 1000, 0.5).sync()
    assert np.array_equal(x.numpy(), np.arange(1000, dtype=np.float32) / 2)
    print(f"scaled {len(x.numpy())} elements on {x.device.name}")


if __name__ == "__main__":
    main()

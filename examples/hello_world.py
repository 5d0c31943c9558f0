"""The first kernel: every block prints its index. It has no output, so its launch gives a grid."""

import tilewright as tw


@tw.kernel(deny_checks=True)
def hello_world() -> None:
    """Printing helps to inspect a kernel; the order of the blocks is undefined."""
    print(f"hello from block {tw.block_id(0)} of {tw.num_blocks(0)}")


def main() -> None:
    """Four blocks."""
    hello_world.grid(4)().sync()


if __name__ == "__main__":
    main()

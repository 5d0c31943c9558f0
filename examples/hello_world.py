"""The first kernel: every block says where it is. It has no output, so it runs on a given grid."""

import tilewright as tw


@tw.kernel(deny_checks=True)
def hello_world() -> None:
    """Printing is for looking into a kernel; which block is first is not defined."""
    print(f"hello from block {tw.block_id(0)} of {tw.num_blocks(0)}")


def main() -> None:
    """Four blocks."""
    hello_world.grid(4)().sync()


if __name__ == "__main__":
    main()

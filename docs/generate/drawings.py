"""The drawings of the book: `python docs/generate/drawings.py` writes `docs/drawings/*.svg`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from svg import BLOCKS, PALE, Drawing

__all__ = ["DRAWINGS", "FOLDER", "write_drawings"]

FOLDER = Path(__file__).parents[1] / "drawings"


def pieces() -> Drawing:
    """An output cut into the pieces of four blocks, beside an input that all of them read."""
    d = Drawing(660, 250, "An output is cut into pieces, one for each block")
    d.text(20, 25, "x and y, shared: every block reads", anchor="start")
    d.box(20, 35, 600, 40, "1000 elements")
    for n in range(4):
        d.arrow(95 + 150 * n, 75, 95 + 150 * n, 112, dashed=n == 3)
    d.row(20, 115, 150, 40, tuple(f"block {n}" for n in range(4)))
    d.text(20, 180, "z.partition(256), owned: block n writes piece n alone", anchor="start")
    d.row(20, 190, 150, 40, ("piece 0", "piece 1", "piece 2", "piece 3"))
    d.box(596, 190, 24, 40, "", PALE)
    d.text(620, 180, "24 elements outside", anchor="end")
    return d


def rights() -> Drawing:
    """The rights of a block by the kind of a parameter."""
    d = Drawing(680, 260, "The rights of three blocks, by the kind of the parameter")
    for n, name in enumerate(("Ref: read all", "Mut: own a piece", "Mapped: walk", "Accum: add")):
        d.text(90 + 165 * n, 25, name)
    for n in range(3):
        d.box(20, 40 + 60 * n, 140, 50, "any element")
        d.box(185, 40 + 60 * n, 140, 50, f"piece {n}", BLOCKS[n])
    for n in range(9):
        x, y = 350 + 46 * (n % 3), 40 + 60 * (n // 3)
        d.box(x, y, 46, 50, str(n), BLOCKS[n % 3])
        d.box(515 + 46 * (n % 3), y, 46, 50, "+", BLOCKS[n // 3])
    d.text(340, 245, "green: block 0, brown: block 1, violet: block 2")
    return d


def softmax() -> Drawing:
    """Rows in tiles, with padding behind the edge."""
    d = Drawing(640, 215, "A piece of whole rows, with padding of minus infinity behind the edge")
    d.text(20, 25, "x: 1000 columns", anchor="start")
    for n in range(4):
        d.box(20, 40 + 34 * n, 480, 30, f"row {n}: max, exp, sum, divide", BLOCKS[n // 2])
        d.box(500, 40 + 34 * n, 110, 30, "−∞", PALE)
    d.text(20, 205, "two rows a block, tiles of 1024 columns: exp(−∞) adds nothing", anchor="start")
    return d


def product() -> Drawing:
    """A tile of a product, the rows and columns that it needs, and the walk."""
    d = Drawing(700, 330, "A tile of the product needs a band of rows and a band of columns")
    d.box(20, 150, 180, 160, "")
    d.box(240, 20, 180, 110, "")
    d.box(240, 150, 180, 160, "")
    for k in range(3):
        d.box(20 + 60 * k, 200, 60, 40, f"x[i,{k}]", BLOCKS[0])
        d.box(300, 20 + 37 * k, 60, 36, f"y[{k},j]", BLOCKS[1])
    d.box(300, 200, 60, 40, "z[i,j]", BLOCKS[2])
    d.text(110, 140, "x")
    d.text(430, 75, "y", anchor="start")
    d.text(430, 300, "z", anchor="start")
    d.arrow(205, 220, 295, 220)
    d.arrow(330, 135, 330, 195)
    d.text(470, 190, "for k: acc += x[i,k] @ y[k,j]", anchor="start")
    d.text(470, 215, "then z.store(acc, at)", anchor="start")
    return d


def attention() -> Drawing:
    """Queries that stay, keys and values that stream past, and three running values."""
    d = Drawing(680, 240, "Queries stay in the block, keys and values stream past it")
    d.box(20, 60, 120, 60, "queries|[BM, D]", BLOCKS[0])
    for j in range(4):
        d.box(230 + 95 * j, 20, 90, 40, f"keys {j}", BLOCKS[1])
        d.box(230 + 95 * j, 120, 90, 40, f"values {j}", BLOCKS[2])
    d.text(330, 95, "scores = queries @ keys.T", anchor="start")
    d.arrow(140, 90, 320, 90)
    d.box(20, 185, 600, 40, "carried: highest score, total of weights, weighted sum of values")
    d.arrow(275, 160, 275, 183)
    return d


def histogram() -> Drawing:
    """Blocks that add to shared bins."""
    d = Drawing(640, 220, "Every block adds to the shared bins, in any order")
    d.row(20, 20, 150, 45, ("block 0", "block 1", "block 2", "block 3"))
    for n in range(4):
        for bin_ in ((0, 2), (1, 2), (0, 4), (3, 5))[n]:
            d.arrow(95 + 150 * n, 65, 70 + 100 * bin_, 138)
    for bin_ in range(6):
        d.box(20 + 100 * bin_, 140, 100, 40, f"bin {bin_}")
    d.text(320, 208, "an atomic addition for each element; none of the blocks reads a bin")
    return d


def segments() -> Drawing:
    """Rows of different lengths, packed, and cut anew at each offset."""
    d = Drawing(660, 190, "Packed rows, cut anew at each offset")
    x = 20
    for n, length in enumerate((210, 90, 0, 280)):
        for at in range(0, length, 100):
            d.box(x + at, 60, min(100, length - at), 45, str(at // 100), BLOCKS[n])
        x += length
    for x, offset in ((20, "0"), (230, "210"), (320, "300, 300"), (600, "580")):
        d.arrow(x, 32, x, 56)
        d.text(x, 25, offset)
    d.text(
        20, 135, "a number is a piece within its row; no piece crosses an offset", anchor="start"
    )
    d.text(20, 160, "row 2 is empty, and has no piece", anchor="start")
    return d


def ladder() -> Drawing:
    """The rungs on which an obligation is settled."""
    d = Drawing(680, 390, "How an index is settled: the first rung that holds")
    rungs = (
        ("1  it counts over this very axis", "for k in range(p.num_tiles(1)): p[i, k]"),
        ("2  its lowest and highest values lie inside", "p[i // 2, 0]"),
        ("3  the launch compares numbers", "x.load_like(z): are the shapes equal?"),
        ("4  the kernel clamps and reports", "p[ids.partition(1)[i].item()]"),
    )
    for n, (rung, example) in enumerate(rungs):
        y = 45 + 80 * n
        d.box(20, y, 330, 48, rung, BLOCKS[n])
        d.text(370, y + 29, example, anchor="start")
        if n < 3:
            d.arrow(185, y + 48, 185, y + 78)
            d.text(195, y + 69, "otherwise", anchor="start")
    d.text(20, 25, "an index of an access", anchor="start")
    d.text(20, 365, "1 and 2 cost nothing, 3 a comparison a launch, 4 one in the kernel;",
           anchor="start")  # fmt: skip
    d.text(20, 383, "deny_checks=True refuses 4", anchor="start")
    return d


def borrowing() -> Drawing:
    """The states of an operation, and its hold on the tensors."""
    d = Drawing(680, 220, "An operation holds its tensors until it is submitted")
    for n, (state, text) in enumerate(
        (("built", "holds z for writing,|x and y for reading"),
         ("submitted", "has a place in the order|of its stream"),
         ("completed", "results, or the failure|that the kernel recorded"))
    ):  # fmt: skip
        d.box(20 + 230 * n, 40, 170, 45, state, BLOCKS[n])
        for line, words in enumerate(text.split("|")):
            d.text(105 + 230 * n, 112 + 18 * line, words)
    d.arrow(190, 62, 248, 62)
    d.text(219, 52, "submit")
    d.arrow(420, 62, 478, 62)
    d.text(105, 170, "z.numpy(): BorrowError")
    d.text(335, 170, "z.numpy(): waits for it")
    d.text(565, 170, "z.numpy(): copies")
    d.text(340, 205, "sync() and await do both steps")
    return d


def streams() -> Drawing:
    """Operations on two streams; a conflict makes the later one wait."""
    d = Drawing(660, 190, "Operations overlap unless they conflict")
    d.text(20, 50, "stream 1", anchor="start")
    d.text(20, 110, "stream 2", anchor="start")
    d.box(110, 28, 170, 36, "add writes z", BLOCKS[0])
    d.box(110, 88, 120, 36, "softmax of x", BLOCKS[1])
    d.box(300, 88, 170, 36, "sum reads z", BLOCKS[2])
    d.box(300, 28, 130, 36, "gelu of y", BLOCKS[3])
    d.arrow(280, 60, 302, 90)
    d.text(110, 155, "sum waits for add, because it reads z; the others overlap", anchor="start")
    d.arrow(110, 172, 600, 172)
    d.text(610, 177, "time", anchor="start")
    return d


def graph() -> Drawing:
    """A recorded graph: an edge only where two operations conflict."""
    d = Drawing(660, 200, "A graph has an edge only where two operations conflict")
    d.box(20, 75, 130, 42, "z = x + y", BLOCKS[0])
    d.box(240, 25, 130, 42, "w = gelu(z)", BLOCKS[1])
    d.box(240, 125, 130, 42, "s = sum(z)", BLOCKS[2])
    d.box(460, 75, 130, 42, "w = w / s", BLOCKS[3])
    d.arrow(150, 90, 237, 50)
    d.arrow(150, 102, 237, 145)
    d.arrow(370, 50, 457, 90)
    d.arrow(370, 145, 457, 102)
    d.text(20, 190, "recorded once, replayed by one call", anchor="start")
    return d


DRAWINGS: dict[str, Callable[[], Drawing]] = {
    one.__name__: one
    for one in (pieces, rights, softmax, product, attention, histogram, segments, ladder, borrowing,
                streams, graph)
}  # fmt: skip


def write_drawings() -> None:
    """Write every drawing."""
    FOLDER.mkdir(exist_ok=True)
    for name, draw in DRAWINGS.items():
        (FOLDER / f"{name}.svg").write_text(draw().svg(), encoding="utf-8")


if __name__ == "__main__":
    write_drawings()

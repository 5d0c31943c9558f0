"""Ready-made dims, and the dtype placeholder `T`, for `from tilewright.dims import …`.

A name has no meaning of its own: it ties the places together where it occurs in the signature of a
kernel, and the docstrings here only give its customary use. Make your own:
`class HEADS(tw.Dim): ...`.
"""

from __future__ import annotations

from tilewright.dtypes import T
from tilewright.lang.dimensions import Dim

__all__ = [
    "BB",
    "BC",
    "BD",
    "BH",
    "BK",
    "BL",
    "BM",
    "BN",
    "BQ",
    "BS",
    "A",
    "B",
    "C",
    "D",
    "E",
    "F",
    "G",
    "H",
    "K",
    "L",
    "M",
    "N",
    "P",
    "Q",
    "R",
    "S",
    "T",
    "V",
    "W",
    "X",
    "Y",
    "Z",
]


class A(Dim):
    """An extent."""


class B(Dim):
    """A batch, or the tile of a vector."""


class BB(Dim):
    """Tile of `B`."""


class BC(Dim):
    """Tile of `C`."""


class BD(Dim):
    """Tile of `D`."""


class BH(Dim):
    """Tile of `H`."""


class BK(Dim):
    """Tile of `K`."""


class BL(Dim):
    """Tile of `L`."""


class BM(Dim):
    """Tile of `M`."""


class BN(Dim):
    """Tile of `N`."""


class BQ(Dim):
    """Tile of `Q`."""


class BS(Dim):
    """Tile of `S`."""


class C(Dim):
    """Channels."""


class D(Dim):
    """Features of a head or of a row."""


class E(Dim):
    """Experts."""


class F(Dim):
    """Hidden features."""


class G(Dim):
    """Groups."""


class H(Dim):
    """Heads, or a height."""


class K(Dim):
    """The extent that a product sums over."""


class L(Dim):
    """A length."""


class M(Dim):
    """Rows."""


class N(Dim):
    """Columns, or the elements of a vector."""


class P(Dim):
    """An extent, often pages."""


class Q(Dim):
    """Queries."""


class R(Dim):
    """An extent, often a rank."""


class S(Dim):
    """A sequence."""


class V(Dim):
    """A vocabulary, or features of values."""


class W(Dim):
    """A width."""


class X(Dim):
    """An extent."""


class Y(Dim):
    """An extent."""


class Z(Dim):
    """An extent."""

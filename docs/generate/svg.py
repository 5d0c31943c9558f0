"""A small writer of SVG: boxes, arrows and texts in colours that suit light and dark pages.

A picture in a page does not know whether the page is light or dark: the background is transparent,
lines and plain texts are of a middle grey, and texts on a colour are white.
"""

from __future__ import annotations

from html import escape

__all__ = ["BLOCKS", "GREY", "PALE", "Drawing"]

BLOCKS = ("#0f766e", "#b45309", "#6d28d9", "#be185d", "#1d4ed8", "#4d7c0f")  # one for each block
GREY = "#7d8590"
PALE = "pale"  # a tint of the page
FONT = "system-ui, sans-serif"


class Drawing:
    """A picture of fixed size; shapes are added in order, later ones on top."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.size = width, height
        self.title = title
        self._parts: list[str] = []

    def box(self, x: float, y: float, w: float, h: float, text: str = "", fill: str = PALE) -> None:
        """A rectangle with a text in its middle; lines of the text are separated by `|`."""
        inside = f'"{GREY}" fill-opacity="0.15"' if fill == PALE else f'"{fill}"'
        self._parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="3" fill={inside} '
            f'stroke="{GREY}" stroke-width="1"/>'
        )
        lines = text.split("|")
        colour = GREY if fill == PALE else "#ffffff"
        for number, line in enumerate(lines):
            middle = y + h / 2 + 5 + 17 * (number - (len(lines) - 1) / 2)
            self.text(x + w / 2, middle, line, colour=colour)

    def text(
        self, x: float, y: float, text: str, *, anchor: str = "middle", colour: str = GREY
    ) -> None:
        """One line of text."""
        self._parts.append(
            f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{colour}">'
            f"{escape(text)}</text>"
        )

    def arrow(self, x1: float, y1: float, x2: float, y2: float, *, dashed: bool = False) -> None:
        """A line with a head at its end."""
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self._parts.append(
            f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{GREY}" '
            f'stroke-width="1.5"{dash} marker-end="url(#head)"/>'
        )

    def row(self, x: float, y: float, w: float, h: float, texts: tuple[str, ...]) -> None:
        """Boxes side by side, in the colours of blocks."""
        for number, text in enumerate(texts):
            self.box(x + number * w, y, w, h, text, BLOCKS[number % len(BLOCKS)])

    def svg(self) -> str:
        """The whole picture."""
        width, height = self.size
        head = (
            f'<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
            f'markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" fill="{GREY}"/></marker>'
        )
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
                f'width="{width}" height="{height}" role="img" font-family="{FONT}" '
                f'font-size="14">',
                f"<title>{escape(self.title)}</title>",
                f"<defs>{head}</defs>",
                *self._parts,
                "</svg>\n",
            ]
        )

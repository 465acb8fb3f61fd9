"""The sheet that every figure is drawn on, and its way to SVG and PNG.

A figure is drawn in the light colours. In the SVG each of them becomes a CSS variable, so that
the page decides what they are in the dark. Lengths are in px of a sheet 400 px wide: one
drawing is legible on a phone and in half the width of a desktop.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from swarm.checks import require_package
from swarm.report.words import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "DARK",
    "LIGHT",
    "WIDTH",
    "bare",
    "place",
    "sheet",
    "styled",
    "to_png",
    "to_svg",
    "to_svg_file",
]

WIDTH = 400

# Blue and orange keep apart for every kind of colour blindness; both reach 4.5:1 on paper.
LIGHT = MappingProxyType(
    {
        "ink": "#18212c",
        "muted": "#566373",
        "faint": "#a3afbb",
        "line": "#dde3e9",
        "paper": "#ffffff",
        "accent": "#1d5fc4",
        "second": "#b9510a",
    }
)
DARK = MappingProxyType(
    {
        "ink": "#e8edf3",
        "muted": "#9dabba",
        "faint": "#66748a",
        "line": "#2e3947",
        "paper": "#161d26",
        "accent": "#74a9ff",
        "second": "#f2a25c",
    }
)
_SVG = "{http://www.w3.org/2000/svg}"
_LINK = "{http://www.w3.org/1999/xlink}href"
_ALONE = (
    'xmlns="http://www.w3.org/2000/svg" '
    f'style="background:{LIGHT["paper"]};font-family:system-ui,sans-serif"'
)
_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_GEOMETRY = frozenset({"d", "x", "y", "width", "height", "transform"})


@contextmanager
def styled() -> Iterator[None]:
    """Hold the settings that a drawing and its bytes depend on, whatever the user's own are.

    Matplotlib's settings belong to the process: do not draw from two threads at once.
    """
    require_package("matplotlib", "report", "a figure")
    import matplotlib.style

    ours = {
        "svg.fonttype": "none",
        "svg.hashsalt": "swarm",
        "text.parse_math": False,
        "path.simplify": False,
        "font.size": 12,
        "axes.edgecolor": LIGHT["line"],
        "axes.unicode_minus": True,
        "xtick.color": LIGHT["muted"],
        "ytick.color": LIGHT["muted"],
        "text.color": LIGHT["ink"],
        "legend.labelcolor": LIGHT["muted"],
        "lines.solid_capstyle": "round",
    }
    with matplotlib.style.context(["default", ours]), warnings.catch_warnings():
        # The browser has fonts for every script; the bundled one is for measuring only.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def sheet(height: float, width: float = WIDTH) -> Figure:
    """Empty figure of the given size in px."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width / 72, height / 72), facecolor="none")


def place(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Add axes at px from the top left corner, with faint lines only."""
    full_width, full_height = figure.get_size_inches() * 72
    bottom = full_height - top - height
    axes = figure.add_axes(
        (left / full_width, bottom / full_height, width / full_width, height / full_height),
        facecolor="none",
    )
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=0, labelsize=12)
    axes.set_axisbelow(True)
    return axes


def bare(axes: Axes) -> Axes:
    """Take away the frame and the ticks."""
    axes.spines[:].set_visible(False)
    axes.set_xticks([])
    axes.set_yticks([])
    return axes


def to_png(figure: Figure) -> bytes:
    """Draw on white, at twice the size; the same bytes for the same figure."""
    buffer = io.BytesIO()
    figure.savefig(
        buffer, format="png", dpi=144, facecolor=LIGHT["paper"], metadata={"Software": None}
    )
    return buffer.getvalue()


def to_svg(figure: Figure, name: str, label: str) -> str:
    """Draw as an element to be put into HTML; the same text for the same figure.

    Parameters
    ----------
    figure : Figure
    name : str
        Prefix of its ids, unique on the page.
    label : str
        What a reader who cannot see it is told.
    """
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    root = ElementTree.fromstring(buffer.getvalue())
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag == f"{_SVG}metadata" or child.find(f"{_SVG}style") is not None:
                parent.remove(child)
    _rename_ids(root, name)
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)
        _tidy(element)
    _hoist(root)
    root.attrib = {"viewBox": root.attrib["viewBox"], "role": "img", "aria-label": plain(label)}
    return ElementTree.tostring(root, encoding="unicode")


def to_svg_file(figure: Figure, name: str, label: str) -> bytes:
    """Draw as a file of its own, in the light colours on white.

    An image sees no CSS variable of the page that shows it, and cannot tell whether that page is
    dark: it brings its colours, its font and its paper along.

    Parameters
    ----------
    figure : Figure
    name : str
        Prefix of its ids.
    label : str
        What a reader who cannot see it is told.

    Returns
    -------
    bytes
        SVG; the same for the same figure and version of matplotlib.
    """
    svg = to_svg(figure, name, label)
    for colour, value in LIGHT.items():
        svg = svg.replace(f"var(--{colour})", value)
    return svg.replace("<svg ", f"<svg {_ALONE} ", 1).encode()


def _rename_ids(root: ElementTree.Element, name: str) -> None:
    """Keep the ids that something refers to, under names of this figure alone."""
    used = {
        found
        for element in root.iter()
        for value in element.attrib.values()
        for found in re.findall(r"^#(\w+)$|^url\(#(\w+)\)$", value)
    }
    referred = {first or second for first, second in used}
    known = [e.attrib["id"] for e in root.iter() if e.attrib.get("id") in referred]
    names = {old: f"{name}-{i}" for i, old in enumerate(known)}
    for element in root.iter():
        old = element.attrib.pop("id", None)
        if old in names:
            element.attrib["id"] = names[old]
        if _LINK in element.attrib:
            link = element.attrib.pop(_LINK)
            element.attrib["href"] = f"#{names[link[1:]]}" if link[1:] in names else link
        clip = element.attrib.get("clip-path", "")
        if clip[5:-1] in names:
            element.attrib["clip-path"] = f"url(#{names[clip[5:-1]]})"


def _tidy(element: ElementTree.Element) -> None:
    """Round coordinates, name the colours, leave the font to the page."""
    for key in _GEOMETRY & element.attrib.keys():
        short = _NUMBER.sub(lambda found: f"{float(found[0]):.2f}", element.attrib[key])
        element.attrib[key] = " ".join(short.split())
    if element.attrib.get("transform", "").startswith("rotate(-0 "):
        del element.attrib["transform"]
    if element.tag != "text" and not (element.text or "").strip():
        element.text = None
    element.tail = None
    style = element.attrib.get("style")
    if style is None:
        return
    style = re.sub(r"font-family:[^;]*;?", "", style)
    for name, colour in LIGHT.items():
        style = style.replace(colour, f"var(--{name})")
    element.attrib["style"] = re.sub(r"\s*([;:])\s*", r"\1", style).strip(";")


def _hoist(root: ElementTree.Element) -> None:
    """Say the style that all marks of a group share once."""
    for group in root.iter("g"):
        styles = {child.attrib.get("style", "") for child in group}
        if len(group) > 1 and len(styles) == 1 and all(child.tag == "use" for child in group):
            group.attrib["style"] = styles.pop()
            for child in group:
                child.attrib.pop("style", None)

"""Style sheet of all figures, and rendering as SVG and PNG.

Figures are drawn in the light colours. On a page each colour is a CSS variable, which the page
redefines in dark mode. Lengths are in px. Figures of a run are 400 px wide: legible on a phone
and in half the width of a desktop screen.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from swarm.arrays import Float
from swarm.checks import require_package
from swarm.problem.scoring import Scoring
from swarm.report.formatting import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

# Blue and orange are safe for colour blindness; both have a contrast of at least 4.5:1.
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
# Pages have more colours than figures.
PAGE_LIGHT = MappingProxyType(
    {**LIGHT, "page": "#f4f6f8", "tint": "#eaf1fb", "warn-line": "#e2a254"}
)
PAGE_DARK = MappingProxyType({**DARK, "page": "#0e131a", "tint": "#1a2a42", "warn-line": "#a3702c"})
# One point is one px, as the figures have 72 dpi.
STYLE = MappingProxyType(
    {
        "figure.dpi": 72,
        "figure.facecolor": LIGHT["paper"],
        "figure.constrained_layout.use": True,
        "figure.constrained_layout.w_pad": 4 / 72,
        "figure.constrained_layout.h_pad": 4 / 72,
        "svg.fonttype": "none",
        "text.parse_math": False,
        "text.color": LIGHT["ink"],
        "path.simplify": False,
        "font.size": 12,
        "font.sans-serif": ["DejaVu Sans"],
        "axes.facecolor": "none",
        "axes.edgecolor": LIGHT["line"],
        "axes.labelcolor": LIGHT["muted"],
        "axes.titlecolor": LIGHT["muted"],
        "axes.titlesize": 12,
        "axes.titlelocation": "left",
        "axes.titlepad": 8,
        "axes.spines.left": False,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.axisbelow": True,
        "axes.unicode_minus": True,
        "grid.color": LIGHT["line"],
        "xtick.color": LIGHT["muted"],
        "xtick.major.size": 0,
        "ytick.color": LIGHT["muted"],
        "ytick.major.size": 0,
        "legend.frameon": False,
        "legend.labelcolor": LIGHT["muted"],
        "legend.fontsize": 12,
        "legend.borderpad": 0,
        "legend.borderaxespad": 0,
        "legend.handlelength": 1.6,
        "legend.handletextpad": 0.6,
        "legend.columnspacing": 1.4,
        "legend.labelspacing": 0.35,
        "lines.solid_capstyle": "round",
        "lines.solid_joinstyle": "round",
    }
)
DASHED: Any = (0, (4, 2.5))
DOTTED: Any = (0, (2, 2.5))
DOT: Any = {"linestyle": "none", "marker": "o"}
ABOVE: Any = {"loc": "outside upper left"}
NAME_LENGTH = 19
_FIGURE_WIDTH = 400
_COLOUR = re.compile("|".join(LIGHT.values()))
_TAG = re.compile(r"<[^>]*>")
_GROUP = re.compile(r'<g id="[^"]*"')


@dataclass(frozen=True)
class Drawing:
    """A rendered figure.

    Attributes
    ----------
    name : str
        Name, unique on a page.
    svg : str
        The figure in the light colours on white, with a text alternative.
    png : bytes
        The figure at twice the size; empty if it is in the page only.
    """

    name: str
    svg: str
    png: bytes

    def files(self, vector: bool = False) -> dict[str, bytes]:
        """Return bytes by path: ``figures/name.png``, and ``figures/name.svg`` if `vector`."""
        svg = {f"figures/{self.name}.svg": self.svg.encode()} if vector else {}
        return {**svg, f"figures/{self.name}.png": self.png} if self.png else svg

    def element(self) -> str:
        """Return the SVG with CSS variables in place of colours.

        Text outside of tags stays as it is, as the name of a feature may be a colour.
        """
        names = {value: f"var(--{name})" for name, value in LIGHT.items()}

        def themed(tag: re.Match[str]) -> str:
            return _COLOUR.sub(lambda match: names[match[0]], tag[0])

        return _TAG.sub(themed, self.svg)


@contextmanager
def styled() -> Iterator[None]:
    """Apply the style sheet, independent of the user's own settings.

    Matplotlib's settings are global: do not draw from two threads at once.
    """
    require_package("matplotlib", "report", "a figure")
    import matplotlib.style

    with matplotlib.style.context(["default", dict(STYLE)]), warnings.catch_warnings():
        # The browser has fonts for every script; the bundled one is only used for the layout.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def empty_figure(height: float, width: float = _FIGURE_WIDTH) -> Figure:
    """Return an empty figure of the given size in px."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width / 72, height / 72))


def one_panel(height: float) -> tuple[Figure, Axes]:
    """Return a figure of the given height in px, and its only axes."""
    figure = empty_figure(height)
    return figure, figure.subplots()


def draw(name: str, label: str, figure: Figure, *, png: bool = True) -> Drawing:
    """Render a figure as reproducible SVG and PNG, with `label` as its text alternative."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    # `savefig` would draw everything twice.
    text = io.StringIO()
    image = io.BytesIO()
    png_metadata = {"Software": None}
    svg_metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    # The salt makes the ids of clip paths and markers unique on a page of many figures.
    with mpl.rc_context({"svg.hashsalt": name}):
        FigureCanvasSVG(figure).print_svg(text, metadata=svg_metadata)  # type: ignore[no-untyped-call]
    if png:
        figure.set_layout_engine("none")
        figure.set_dpi(144)
        FigureCanvasAgg(figure).print_png(image, metadata=png_metadata)  # type: ignore[no-untyped-call]
    svg = text.getvalue()
    # Ids of groups repeat between the figures of a page, and nothing refers to them.
    svg = _GROUP.sub("<g", svg[svg.index("<svg") :])
    opening = f'<svg role="img" aria-label="{escape(plain(label))}" '
    return Drawing(name, svg.replace("<svg ", opening, 1), image.getvalue())


def limits(values: Float, margin: float) -> tuple[float, float]:
    """Return the bounds of the finite values with a margin, never of zero width."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    span = high - low
    if span <= 1e-9 * max(abs(low), abs(high)):
        pad = 0.5 * abs(high) or 0.5
        return low - pad, high + pad
    return low - margin * span, high + margin * span


def plain_ticks(axis: Axis, whole: bool = False, count: int = 5) -> None:
    """Set few ticks without offset or exponent; integers only if `whole`."""
    from matplotlib.ticker import MaxNLocator, NullLocator, ScalarFormatter

    axis.set_major_locator(MaxNLocator(count, integer=whole, min_n_ticks=1))
    axis.set_minor_locator(NullLocator())
    low, high = axis.get_view_interval()
    if max(abs(low), abs(high)) < 1e6:
        formatter = ScalarFormatter(useOffset=False)
        formatter.set_scientific(False)
        axis.set_major_formatter(formatter)
    else:
        axis.set_major_formatter(lambda value, _: f"{value:.3g}")


def scores_for_costs(axes: Axes, scoring: Scoring) -> None:
    """Label the axis of costs by scores of the metric, better ones further up."""
    axes.yaxis.set_major_formatter(lambda cost, _: f"{scoring.natural(cost):.4g}")
    if not scoring.lower_is_better:
        axes.invert_yaxis()


def named_rows(axes: Axes, names: Sequence[str]) -> None:
    """Label the rows of a figure by names, the first at the top."""
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(axis="x")
    axes.set_yticks(range(len(names)), names)


def blue(strength: Float) -> NDArray[np.uint8]:
    """Return RGBA values (..., 4): mid-tone blue whose opacity is the strength.

    Strong values thus differ from the page in light and in dark mode.
    """
    colour = np.empty((*strength.shape, 4), dtype=np.uint8)
    colour[..., :3] = (44, 118, 222)
    colour[..., 3] = np.round(255 * np.clip(strength, 0.0, 1.0))
    return colour

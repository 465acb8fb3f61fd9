"""Figure of a stability analysis: selection frequencies with intervals and thresholds."""

from swarm.report.drawing import LIGHT, draw, empty_figure, styled
from swarm.report.formatting import shortened
from swarm.validation.stability import Assessment

# Further units are only in the table.
_MAX_ROWS = 40
_COLOURS = {"core": "accent", "optional": "second", "noise": "faint"}


def stability_files(assessment: Assessment) -> dict[str, bytes]:
    """Draw the selection frequencies of units as ``figures/stability.svg`` and ``.png``."""
    units = assessment.table.head(_MAX_ROWS)
    with styled():
        figure = empty_figure(17 * len(units) + 84, 560)
        axes = figure.subplots()
        axes.set(xlim=(-0.02, 1.02), ylim=(len(units) - 0.5, -0.5))
        for row, unit in enumerate(units.to_dict("records")):
            colour = LIGHT[_COLOURS[unit["class"]]]
            ends = [unit["low"], unit["high"]]
            axes.plot(ends, [row, row], color=colour, linewidth=2, alpha=0.5)
            axes.plot([unit["share"]], [row], "o", color=colour, markersize=6)
        for share in assessment.thresholds:
            axes.axvline(share, color=LIGHT["muted"], linewidth=1, linestyle=(0, (3, 3)), zorder=0)
        axes.set_yticks(range(len(units)), [shortened(name, 24) for name in units["feature"]])
        axes.set_xlabel("share of the searches that selected the feature")
        top = axes.secondary_xaxis("top")
        top.spines[:].set_visible(False)
        top.set_xticks(assessment.thresholds, ["core from here", "noise up to here"])
        label = f"Selection frequency of {len(units)} features, with intervals."
        return draw("stability", label, figure).files(vector=True)

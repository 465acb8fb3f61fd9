"""Cards: what a notebook shows of a selector, a verdict, findings or a comparison.

A card is a fragment of HTML with the styles of the reports, which apply to nothing else on the
page. It follows the theme of JupyterLab, VS Code and Colab, and elsewhere that of the browser.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, singledispatch
from importlib.util import find_spec
from typing import Any

from swarm.findings import Finding, Findings
from swarm.report import formatting
from swarm.report.comparison import rank_table, sentences
from swarm.report.contenders import contender_rows
from swarm.report.data import ReportData
from swarm.report.drawing import PAGE_DARK, PAGE_LIGHT
from swarm.report.figures import draw_figures
from swarm.report.formatting import metric_name
from swarm.report.page import feature_rows, template
from swarm.validation.comparison import Comparison
from swarm.validation.judgement import Judgement
from swarm.validation.sentences import positive_class_sentence, unseen_rows
from swarm.validation.verdict import Headline
from swarm.wording import counted

# Twice, as notebooks style tables by a class and elements.
_SCOPE = ".swarm-card.swarm-card"
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")
_EMPTY = re.compile(r"@media[^{}]*\{\s*\}")
_MOST_FEATURES, _MOST_FINDINGS = 12, 4


@singledispatch
def card_of(shown: Any) -> str | None:
    """Return the card of an object; None where it has none, or jinja2 is not installed."""
    return None


@card_of.register
def _(shown: ReportData) -> str | None:
    figures: dict[str, Any] = {}
    if find_spec("matplotlib") is not None:
        name = "tradeoff" if shown.confirmed is None else "confirmed"
        figures = {each.name: each for each in draw_figures(shown, {name}, png=False).values()}
    head, (chosen, _) = shown.headline, feature_rows(shown)
    return _card(
        head.title,
        head.answer(),
        run=shown.title,
        features=chosen[:_MOST_FEATURES],
        n_features=len(chosen),
        figure=next(iter(figures.values()), None),
        findings=shown.findings,
    )


@card_of.register
def _(shown: Headline) -> str | None:
    return _card(shown.title, [*shown.sentences(), *shown.notes])


@card_of.register
def _(shown: Judgement) -> str | None:
    texts = [shown.sentence(), positive_class_sentence(shown)]
    title = f"Scores on {unseen_rows(shown.n_rows, shown.n_groups)}"
    metrics = [metric_name(each) for each in shown.metrics]
    return _card(title, texts, contenders=contender_rows(shown), metrics=metrics)


@card_of.register
def _(shown: Findings) -> str | None:
    title = counted(len(shown), "finding") if shown else "No findings"
    return _card(title, findings=[each.as_dict() for each in shown])


@card_of.register
def _(shown: Finding) -> str | None:
    return _card(findings=[shown.as_dict()])


@card_of.register
def _(shown: Comparison) -> str | None:
    title, *others = sentences(shown)
    return _card(title, others, ranks=rank_table(shown))


def _card(title: str = "", texts: Sequence[str] = (), **parts: Any) -> str | None:
    """Render a card of a title, sentences and what else there is."""
    if find_spec("jinja2") is None:
        return None
    from markupsafe import Markup

    figure = parts.pop("figure", None)
    names = ("run", "features", "findings", "contenders", "metrics", "ranks")
    return template("card.html.j2").render(
        style=Markup(_style()),
        title=title,
        texts=[text for text in texts if text],
        figure=None if figure is None else Markup(figure.element()),
        most_findings=_MOST_FINDINGS,
        f=formatting,
        counted=counted,
        **{**dict.fromkeys(names), **parts},
    )


@cache
def _style() -> str:
    """Return the style sheet of a card."""
    colours = {"light": PAGE_LIGHT, "dark": PAGE_DARK}
    report = template("report.css").render(colours)
    return "\n".join([scoped(report), template("card.css").render(colours, scope=_SCOPE)])


def scoped(css: str, scope: str = _SCOPE) -> str:
    """Return the rules of a style sheet for what is inside of a scope alone.

    Those of the body are of the scope itself, and those of the root are left out.
    """

    def prefixed(rule: re.Match[str]) -> str:
        selectors = [each.strip() for each in rule[1].split(",")]
        inside = [
            scope if each == "body" else f"{scope} {each}"
            for each in selectors
            if each not in (":root", "html")
        ]
        return f"\n{', '.join(inside)} {{{rule[2]}}}" if inside else ""

    return _EMPTY.sub("", _RULE.sub(prefixed, _COMMENT.sub("", css)))

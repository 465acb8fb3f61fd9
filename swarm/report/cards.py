"""Cards: what a notebook shows of a selector, a verdict, findings or a comparison.

A card is a fragment of HTML with the styles of the reports, which apply to nothing else on the
page. It follows the theme of JupyterLab, VS Code and Colab, or else the theme of the browser.
"""

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
from swarm.report.drawing import PAGE_DARK, PAGE_LIGHT, Drawing
from swarm.report.figures import draw_figures
from swarm.report.formatting import metric_name
from swarm.report.page import feature_rows, template
from swarm.validation.comparison import Comparison
from swarm.validation.judgement import Judgement
from swarm.validation.sentences import positive_class_sentence, unseen_rows
from swarm.validation.verdict import Headline
from swarm.wording import counted

# The class stands twice to outweigh the styles of notebooks for tables: a class and elements.
_SCOPE = ".swarm-card.swarm-card"
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")
_EMPTY = re.compile(r"@media[^{}]*\{\s*\}")
_MAX_FEATURES = 12
_MAX_FINDINGS = 4


@singledispatch
def card_of(shown: object) -> str | None:
    """Return the card of an object; None if it has none, or jinja2 is not installed."""
    return None


@card_of.register
def _(shown: ReportData) -> str | None:
    figure: Drawing | None = None
    if find_spec("matplotlib") is not None:
        name = "tradeoff" if shown.confirmed is None else "confirmed"
        figure = draw_figures(shown, {name}, png=False).get(name)
    chosen, _ = feature_rows(shown)
    return _card(
        shown.headline.title,
        shown.headline.answer(),
        run=shown.title,
        features=chosen[:_MAX_FEATURES],
        n_features=len(chosen),
        figure=figure,
        findings=shown.findings,
    )


@card_of.register
def _(shown: Headline) -> str | None:
    return _card(shown.title, [*shown.sentences(), *shown.notes])


@card_of.register
def _(shown: Judgement) -> str | None:
    texts = [shown.sentence(), positive_class_sentence(shown)]
    title = f"Scores on {unseen_rows(shown.n_rows, shown.n_groups)}"
    metrics = [metric_name(metric) for metric in shown.metrics]
    return _card(title, texts, contenders=contender_rows(shown), metrics=metrics)


@card_of.register
def _(shown: Findings) -> str | None:
    title = counted(len(shown), "finding") if shown else "No findings"
    return _card(title, findings=[finding.as_dict() for finding in shown])


@card_of.register
def _(shown: Finding) -> str | None:
    return _card(findings=[shown.as_dict()])


@card_of.register
def _(shown: Comparison) -> str | None:
    title, *texts = sentences(shown)
    return _card(title, texts, ranks=rank_table(shown))


def _card(
    title: str = "", texts: Sequence[str] = (), figure: Drawing | None = None, **sections: Any
) -> str | None:
    """Render a card of a title, sentences, a figure and other sections."""
    if find_spec("jinja2") is None:
        return None
    from markupsafe import Markup

    names = ("run", "features", "findings", "contenders", "metrics", "ranks")
    return template("card.html.j2").render(
        style=Markup(_style()),
        title=title,
        texts=[text for text in texts if text],
        figure=None if figure is None else Markup(figure.element()),
        most_findings=_MAX_FINDINGS,
        f=formatting,
        counted=counted,
        **{**dict.fromkeys(names), **sections},
    )


@cache
def _style() -> str:
    colours = {"light": PAGE_LIGHT, "dark": PAGE_DARK}
    report = template("report.css").render(colours)
    return "\n".join([scoped(report), template("card.css").render(colours, scope=_SCOPE)])


def scoped(css: str, scope: str = _SCOPE) -> str:
    """Restrict the rules of a style sheet to elements within a scope.

    Rules of the body become rules of the scope itself, and rules of the root are left out.
    """

    def prefixed(rule: re.Match[str]) -> str:
        selectors = [selector.strip() for selector in rule[1].split(",")]
        within_scope = [
            scope if selector == "body" else f"{scope} {selector}"
            for selector in selectors
            if selector not in (":root", "html")
        ]
        return f"\n{', '.join(within_scope)} {{{rule[2]}}}" if within_scope else ""

    return _EMPTY.sub("", _RULE.sub(prefixed, _COMMENT.sub("", css)))

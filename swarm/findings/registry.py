"""The registry of findings: code, title, severity, reason and remedy of every kind.

Codes never change and are never reused; texts may. Codes below 100 concern the configuration, from
101 data and folds, from 201 the search and its result, from 301 a champion.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any, Literal

from swarm.errors import ConfigError, nearest
from swarm.json_data import json_file
from swarm.notebook import Drawn

# A finding names no more columns one by one.
_MAX_COLUMNS_NAMED = 100

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Kind:
    """A kind of finding.

    Attributes
    ----------
    code : str
        "SWM" and three digits.
    title : str
        Noun phrase.
    reason : str
        When it is reported and why it matters, for the documentation.
    remedy : str
        What to do, in the imperative, without a full stop.
    severity : {"error", "warning", "note"}
        An error prevents a run, and cannot be muted. A warning is a reason to doubt a score or a
        subset. A note states a choice that was made by default.
    """

    code: str
    title: str
    reason: str
    remedy: str
    severity: Severity = "warning"


_ALL = (
    Kind(
        "SWM001",
        "Configuration refused",
        "A key is unknown, lacks a value, or contradicts another one. A run ends with the first"
        " of these sentences; `swarm check` lists all of them.",
        "correct the configuration",
        severity="error",
    ),
    Kind(
        "SWM002",
        "Data or model refused",
        "The table cannot be read, a column cannot have its role, or the model cannot be fitted or"
        " scored on these rows.",
        "correct the data, or the keys that describe it",
        severity="error",
    ),
    Kind(
        "SWM003",
        "Positive class chosen by default",
        "`f1`, `precision`, `recall` and the vote `any` depend on which of two classes is positive."
        " Without `pos_label` it is the label 1 where there is one, else the rarer class, which is"
        " often the one of interest, but not always.",
        "set pos_label to the class of interest",
        severity="note",
    ),
    Kind(
        "SWM004",
        "Rare class hidden by the scorer",
        "Fewer than 10 % of the training rows are of one class, of several classes 10 % divided by"
        " their number less one, and the scorer counts rows"
        " (accuracy, or a micro or weighted average). A model that never predicts that class has an"
        " almost perfect score, so the search has nothing to distinguish subsets by.",
        "use scoring balanced_accuracy or f1_macro, or of two classes roc_auc or average_precision",
    ),
    Kind(
        "SWM005",
        "Rows without a target",
        "Rows whose target is missing are neither searched nor tested on. Rows that are labelled"
        " late or seldom may differ from the others, which then are all that the result is about.",
        "see whether they are a random part of the rows",
        severity="note",
    ),
    Kind(
        "SWM006",
        "Whole numbers read as text",
        "Beside empty cells, whole numbers of more than 15 digits, such as identifiers, would"
        " become inexact floats, and different ones equal; so would 1, 01 and 1.0 in a CSV file."
        " They are read as text.",
        "see that its values are codes and not quantities",
        severity="note",
    ),
    Kind(
        "SWM101",
        "Groups on both sides",
        "Rows of one group are in both the training and the test rows of the split or of a fold:"
        " scores are too good, and columns that identify the group win.",
        "set split.kind to 'group' and folds.kind to 'auto', which keep groups together",
    ),
    Kind(
        "SWM102",
        "Class missing from a side",
        "A class is missing from the training rows of the split or of a fold, so that it is never"
        " predicted, or from the test rows, so that the test scores say nothing about it.",
        "use another split.kind or a larger split.test_size, so that every class is on both sides,"
        " or remove the rows of the class from the table",
    ),
    Kind(
        "SWM106",
        "Rows that may belong together",
        "A column repeats its values like the identifier of what rows belong to (visits of a"
        " patient, orders of a customer), and the rows have no groups: a random split puts near"
        " copies on both sides. The column is named like an identifier, or has numbers of 16 digits"
        " or more, or its values occur in similar numbers of rows and other columns are constant"
        " within them.",
        "make the column the groups of the rows, and split and fold by group, or drop it",
    ),
    Kind(
        "SWM107",
        "Order of time ignored",
        "The rows have a time column, or are sorted by a column of dates, or by one of years or the"
        " like along which the target changes, but the test rows of the split or of the folds are"
        " drawn at random. A model that will predict later rows is then"
        " tested on rows between those it was trained on, and columns win that follow the time.",
        "set split.kind and folds.kind to 'time', with the column as data.time",
    ),
    Kind(
        "SWM111",
        "ID-like column",
        "Every row has its own value: text, or whole numbers without gaps to speak of. Such a"
        " column cannot generalise, but can encode the order in which rows were collected. The same"
        " goes for a second identifier of the groups of rows, with a value of its own in each.",
        "drop it",
    ),
    Kind(
        "SWM112",
        "Constant column",
        "A column has one value in all training rows, so no model can use it. A part of a date is"
        " no column of the table; `forbidden` leaves it out.",
        "drop it",
    ),
    Kind(
        "SWM113",
        "Duplicate columns",
        "Columns have equal values in all training rows, are codes of the same levels (0 and 1, N"
        " and Y), or are linear in one another but for rounding, as in another unit. Which of them"
        " is selected is arbitrary.",
        "keep one of them and drop the others",
    ),
    Kind(
        "SWM114",
        "Leak-like column",
        "One column alone predicts the target almost perfectly: a shallow decision tree on that"
        " column has a cross-validated balanced accuracy of at least 0.97 or an ROC AUC of at least"
        " 0.99 (for numbers, an R² of at least 0.97 on ranks). Most often the column was filled in"
        " after the outcome was known, or is the outcome under another name. Up to 5,000 training"
        " rows are used, and at most five columns are reported.",
        "check when its values are known, and drop it if that is after the outcome",
    ),
    Kind(
        "SWM115",
        "Text that is no category",
        "The values of a category are dates, numbers in formats or units that differ, or texts that"
        " mostly occur once. As categories they have neither order nor distance, and later rows"
        " have values that the model has never seen. Of columns that are dropped, those of numbers"
        " are named.",
        "replace it by numbers, such as the year, month and day of a date, or drop it",
    ),
    Kind(
        "SWM117",
        "Text column without a role",
        "A column holds text, and the model needs numbers or categories. A run ends with the first"
        " such column; `swarm check` lists all of them.",
        "list it in data.categorical, data.dates or data.drop",
        severity="error",
    ),
    Kind(
        "SWM118",
        "Repeated rows",
        "At least 1 % of the training rows are copies of others, features and target alike, and one"
        " of the columns has values that hardly repeat by chance. They come from a join, from"
        " oversampling, or from one object that is in the table several times. A model that was"
        " trained on a copy knows the answer of the row it is tested on, so costs and test scores"
        " are too good.",
        "remove the copies (instead of oversampling, weight the classes in the model), or"
        " make what they share the groups of the rows",
    ),
    Kind(
        "SWM119",
        "Labels that differ by blanks only",
        "Two labels of the target are the same text but for blanks. They are most likely one class,"
        " and are counted and learned as two.",
        "strip the blanks in the table",
    ),
    Kind(
        "SWM121",
        "Value that may mark missing ones",
        "The smallest or largest value of a column of numbers is that of at least 1 % of the rows"
        " and far from all others, such as -999 among temperatures. It most likely stands for"
        " missing values, and distorts means, scales and distances.",
        "replace it by missing values in the table, unless it was measured",
    ),
    Kind(
        "SWM122",
        "Row labels in another order",
        "The target, weights or groups given to `SubsetSelector` have the same index as X, but in"
        " another order, as after a shuffle of X alone. Rows are matched by position, as everywhere"
        " in scikit-learn, so each row gets the target of another one and nothing can be learned.",
        "align them, such as y = y.loc[X.index], or reset the index of both",
    ),
    Kind(
        "SWM123",
        "Few values of the target decide the score",
        "The scorer squares errors, and a hundredth of the training rows, at least two, have more"
        " than half of the squared deviations from the mean target. Which columns predict these few"
        " rows decides the search, and whether the test rows have such values its judgement. A"
        " model that squares errors too, as most do by default, follows them: by mean absolute"
        " error it may then be worse than guessing.",
        "correct the values, search for the logarithm of the target, or use scoring"
        " neg_mean_absolute_error and a model with a robust loss: LightGBM with objective mae, or"
        " HuberRegressor",
    ),
    Kind(
        "SWM201",
        "Proxy unlike the model",
        "The rank correlation between the costs of the cheaper and of the full model is below 0.8,"
        " so that the search optimised something else.",
        "choose parameters of the proxy closer to those of the model, or search without a proxy",
    ),
    Kind(
        "SWM202",
        "Gain not confirmed",
        "On fresh folds, the interval of the gain over all features contains 0 or is below it.",
        "unless unseen rows show a gain, keep all features, or prefer this subset for its size"
        " only",
    ),
    Kind(
        "SWM203",
        "Optimism above the gain",
        "On the test rows the best subset scores worse than in the search, by at least as much as"
        " it gains there over all features. The gain of the search was luck on its folds.",
        "do not expect the score of the search; use more rows, more folds or a smaller budget",
    ),
    Kind(
        "SWM204",
        "Not clearly better than random subsets",
        "On the test rows no difference to ensembles of random subsets of the same sizes is clear."
        " The columns may be interchangeable, and the selected ones deserve no interpretation.",
        "do not interpret the selected columns; a smaller max_size may separate them",
    ),
    Kind(
        "SWM205",
        "Too few rows for the number of subsets",
        "The best of K equally good subsets looks better than they are by up to"
        " sqrt(2 ln K) standard errors of a cost. Below 50 rows per unit of ln K (for classes:"
        " the rows of the rarest class times the number of classes), this is 0.06 for an error of"
        " 0.1, and 0.1 for an error of 0.5: more than most selections gain. Fresh folds do not show"
        " it, as they have the same rows, except for those of rankings, which compete where columns"
        " outnumber rows. It is not reported if unseen rows show a gain.",
        "search fewer subsets (distinct), or collect more rows",
    ),
    Kind(
        "SWM206",
        "Unstable subset",
        "The final subsets of the search hardly agree: Nogueira's stability index is below 0.4,"
        " where 0 is chance and 1 full agreement. This is common, as columns can replace one"
        " another.",
        "repeat the search with other seeds or resamples (swarm stability) before interpreting the"
        " selected columns",
        severity="note",
    ),
    Kind(
        "SWM207",
        "Size at a bound of the space",
        "The selected subset is as large as `max_size`, or as small as `min_size`, allows."
        " The best size may be beyond the bound.",
        "move the bound, unless it is a requirement",
        severity="note",
    ),
    Kind(
        "SWM209",
        "No better than guessing",
        "On the test rows neither the ensemble nor one model of the selected or of all features is"
        " significantly better than the best model that ignores the features: one that predicts"
        " the same for all rows, such as a class, the shares of the classes, the mean or the median"
        " of the target. Either a gain that matters is excluded, so that all subsets do equally and"
        " the selected columns mean nothing; or the rows are too few to tell; or all features do"
        " significantly worse, because the loss of the model is another than the metric, a few"
        " outliers decide it, or the labels of both parts differ.",
        "look for columns or a model that predict the target, or hold out more rows; if all"
        " features do worse, give the model the loss that the metric counts, and look at outliers"
        " and labels",
    ),
    Kind(
        "SWM210",
        "No smaller subset shown to be as good",
        "If the goal of the confirmation is the size, the result is the smallest subset whose loss"
        " against all features on fresh folds is within the margin. No subset is within it, so the"
        " result is the one with the lowest cost on fresh folds, which may be worse than all"
        " features.",
        "keep all features, or accept a larger loss (confirm.margin), or search longer",
    ),
    Kind(
        "SWM211",
        "Score that depends on one column",
        "Before a search: a decision tree on one column alone has at least 70 % of what the best"
        " 31 columns gain over guessing, which is at least a third of a perfect score, and all"
        " others have at most two thirds of its gain. After it: one of the selected columns has"
        " more than half of their importance, and a model of all other columns loses more than"
        " half of what the selected ones gain over guessing, which is at least a third of its"
        " cost; or, of four and more, one has two thirds of the importance. Such a column may have"
        " been filled in as the outcome became known, such as calls to customers who have"
        " cancelled, but too rarely to reach the limits of SWM114. It is then measured on rows"
        " that the models were not trained on, by a run and by `report` of `SubsetSelector` with"
        " rows.",
        "check that its values are known before the outcome is, and drop it otherwise",
    ),
    Kind(
        "SWM301",
        "Drifted columns of the champion",
        "Columns of the champion have drifted since it was trained.",
        "check the table, or set drift.action to stop",
    ),
    Kind(
        "SWM302",
        "Another metric decides",
        "The champion has no probabilities of the classes of the new rows, as a class appeared,"
        " disappeared or has another name. Its labels alone would be scored as if they were"
        " certain, so that the default metric of labels decides.",
        "check the classes of the target",
    ),
    Kind(
        "SWM303",
        "Champion trained on the test rows",
        "Most test rows of the challenger are training rows of the champion, as a random split of a"
        " table that grows draws them anew. Such rows favour the champion, and are left out of the"
        " comparison as long as enough others remain. If they cannot be recognised, because rows"
        " are equal by chance or a column is missing, all test rows are compared.",
        "split the rows in time, or refresh when there are more new rows",
    ),
)

KINDS = MappingProxyType({kind.code: kind for kind in _ALL})

# Findings are shown in this order, so that a page with room for few has the gravest. Errors and
# notes are at its ends, as their severity says.
_BY_GRAVITY = (
    # Errors prevent a run.
    *("SWM001", "SWM002", "SWM117"),
    # Scores are false.
    *("SWM122", "SWM114", "SWM118", "SWM101", "SWM106", "SWM107", "SWM211", "SWM303"),
    # The scores or the model answer another question.
    *("SWM004", "SWM123", "SWM102", "SWM119", "SWM121", "SWM302", "SWM301"),
    # The result may be luck.
    *("SWM209", "SWM203", "SWM205", "SWM202", "SWM210", "SWM204", "SWM201"),
    # Columns that the model would be better off without.
    *("SWM111", "SWM115", "SWM113", "SWM112"),
    *("SWM005", "SWM003", "SWM006", "SWM206", "SWM207"),
)


@dataclass(frozen=True)
class Finding(Drawn):
    """One finding of a :class:`Kind`.

    Attributes
    ----------
    code, title, severity
        See :class:`Kind`.
    text : str
        What was found, with its values: a clause without a full stop.
    remedy : str
    columns : tuple of str
        The first 100 columns that the finding is about, if any.
    """

    code: str
    title: str
    severity: Severity
    text: str
    remedy: str
    columns: tuple[str, ...] = ()

    def __str__(self) -> str:
        line = f"{self.code}: {self.text}"
        return f"{line}; {self.remedy}" if self.remedy else line

    @property
    def page(self) -> str:
        """Address of its entry in the documentation."""
        return f"docs/findings.md#{self.code.lower()}"

    def as_dict(self) -> dict[str, Any]:
        """Return the finding as JSON data."""
        return {**asdict(self), "columns": list(self.columns), "page": self.page}


class Findings(tuple[Finding, ...], Drawn):
    """Findings, the gravest first, with a line of text for each."""

    def __repr__(self) -> str:
        lines = [f"{finding.severity:<8}{finding}" for finding in self]
        return "\n".join(lines) or "no findings"


def make_finding(
    code: str, text: str, columns: Sequence[str] = (), *, remedy: str | None = None
) -> Finding:
    """Return a finding of a kind; `remedy` replaces the remedy of the kind."""
    kind = KINDS[code]
    return Finding(
        code=code,
        title=kind.title,
        severity=kind.severity,
        text=text,
        remedy=kind.remedy if remedy is None else remedy,
        columns=tuple(map(str, columns[:_MAX_COLUMNS_NAMED])),
    )


def check_mute(codes: Iterable[str]) -> None:
    """Raise ConfigError unless every code exists and may be muted."""
    for code in codes:
        if code not in KINDS:
            raise ConfigError(
                f"unknown finding {code!r} in mute{nearest(code, KINDS)}; codes are listed in"
                " docs/findings.md"
            )
        if KINDS[code].severity == "error":
            raise ConfigError(
                f"finding {code} ({KINDS[code].title}) is an error and cannot be muted; correct it"
            )


def unmuted(findings: Iterable[Finding], mute: Iterable[str] = ()) -> Findings:
    """Return the findings whose codes are not muted, without repetitions, the gravest first."""
    muted = frozenset(mute)
    distinct: dict[object, Finding] = {}
    for finding in findings:
        if finding.code not in muted:
            # A dependence that is measured after a search replaces the expectation before it.
            is_measured_again = finding.code == "SWM211"
            key = (finding.code, finding.columns) if is_measured_again else finding
            distinct[key] = finding
    by_gravity = sorted(distinct.values(), key=lambda finding: _BY_GRAVITY.index(finding.code))
    return Findings(by_gravity)


def codes_of(findings: Iterable[Finding]) -> str:
    """Return the distinct codes, separated by spaces, or ``"none"``: the tag of a run."""
    return " ".join(sorted({finding.code for finding in findings})) or "none"


def as_file(findings: Iterable[Finding], mute: Iterable[str] = ()) -> bytes:
    """Return the artifact ``findings.json``."""
    entries = [finding.as_dict() for finding in findings]
    return json_file({"findings": entries, "muted": sorted(set(mute))})

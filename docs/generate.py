"""Write the reference pages: configuration, command line, strategies, findings; and pictures.

``make pages`` and ``make docs`` run this; ``make check-pages`` fails when a page is out of date.
"""

from __future__ import annotations

import inspect
import json
import pkgutil
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, get_args

import typer
import yaml
from docstring_parser import DocstringStyle, parse

from conf.schema import CompareConfig, RefreshConfig, SelectConfig
from flows.cli import app
from swarm.findings import KINDS
from swarm.strategies.catalogue import Parameter, StrategyEntry, catalogue, make, registry

DOCS = Path(__file__).resolve().parent
NOTE = "<!-- Written by docs/generate.py (make docs); changes made here are lost. -->\n\n"

Schema = Mapping[str, Any]


def pages() -> dict[str, str]:
    """Return the text of every generated page by file name."""
    return {
        "config-reference.md": NOTE + _configuration(),
        "cli-reference.md": NOTE + _command_line(),
        "strategies.md": NOTE + _strategies(),
        "findings.md": NOTE + _findings(),
        "architecture.md": _with_pictures((DOCS / "architecture.md").read_text(encoding="utf-8")),
    }


# ---------------------------------------------------------------- configuration


def _configuration() -> str:
    select = SelectConfig.model_json_schema()
    refresh, compare = RefreshConfig.model_json_schema(), CompareConfig.model_json_schema()
    known = set(select["properties"])
    parts = [
        "# Configuration\n",
        "All keys, generated from the schema. `swarm config CONFIG` prints a configuration with all"
        " defaults, and with `--schema` the JSON schema for editors.\n",
        "Precedence of values: `--set KEY=VALUE`, the environment"
        " (`SWARM_BUDGET__EPOCHS=5` sets `budget.epochs`), the file, the default. `${NAME}` in an"
        " address is replaced by an environment variable when it is used, and never"
        " stored.\n",
        "A file with the key `champion` configures a refresh, one with `datasets` a comparison, any"
        " other a search.\n",
        "## A search\n",
        *_sections(select, select, "", 3),
        "## A refresh\n",
        "Every key of a search, and:\n",
        *_sections(refresh, refresh, "", 3, leave_out=known),
        "## A comparison\n",
        "Keys of a search that are not listed here have the same meaning and default.\n",
        *_sections(
            compare, compare, "", 3, leave_out=_same(select, compare), like=set(_rows(select))
        ),
    ]
    return "\n".join(parts).rstrip() + "\n"


def _same(one: Schema, other: Schema) -> set[str]:
    """Return the keys that two configurations share, with all keys below them."""

    def whole(schema: Schema, key: str) -> str:
        below = _object(schema["properties"][key], schema)
        return json.dumps([schema["properties"][key], below], sort_keys=True)

    shared = set(one["properties"]) & set(other["properties"])
    return {key for key in shared if whole(one, key) == whole(other, key)}


def _sections(
    schema: Schema,
    root: Schema,
    prefix: str,
    level: int,
    leave_out: Collection[str] = (),
    like: Collection[str] = (),
) -> Iterator[str]:
    """Yield the table of the plain keys, then each section below its heading.

    `leave_out` are keys that are not listed, `like` are rows that are listed elsewhere.
    """
    plain, below = _parts(schema, root, leave_out)
    rows = [row for key in plain if (row := _row(key, schema, root, prefix)) not in like]
    if rows:
        yield "| key | allowed values | default | description |\n|---|---|---|---|"
        yield "\n".join(rows) + "\n"
    for key, inner in below.items():
        entry = schema["properties"][key]
        name = f"{prefix}{key}" + (".NAME" if "patternProperties" in entry else "")
        yield f"{'#' * level} `{name}`\n"
        needed = " Required." if key in schema.get("required", []) else ""
        yield f"{_cell(entry.get('description', inner['description']))}.{needed}\n"
        if name == "datasets.NAME":
            shared = [each for each in inner["properties"] if each != "data"]
            yield f"`data`, and {_listed(shared)} in place of those at the top.\n"
        else:
            yield from _sections(inner, root, f"{name}.", level + 1, like=like)


def _parts(
    schema: Schema, root: Schema, leave_out: Collection[str]
) -> tuple[list[str], dict[str, Schema]]:
    """Separate plain keys from sections."""
    keys = [key for key in schema["properties"] if key not in leave_out]
    inner = {key: _object(schema["properties"][key], root) for key in keys}
    return [key for key in keys if inner[key] is None], {k: v for k, v in inner.items() if v}


def _rows(schema: Schema, root: Schema | None = None, prefix: str = "") -> Iterator[str]:
    """Yield the rows of a configuration, of all sections."""
    root = root or schema
    plain, below = _parts(schema, root, ())
    yield from (_row(key, schema, root, prefix) for key in plain)
    for key, inner in below.items():
        yield from _rows(inner, root, f"{prefix}{key}.")


def _row(key: str, schema: Schema, root: Schema, prefix: str) -> str:
    entry = schema["properties"][key]
    needed = key in schema.get("required", [])
    default = "required" if needed else f"`{_yaml(entry.get('default'))}`"
    told = _cell(entry["description"])
    return f"| `{prefix}{key}` | {_allowed(entry, root)} | {default} | {told} |"


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _resolved(entry: Schema, root: Schema) -> Schema:
    if "$ref" in entry:
        found: Schema = root["$defs"][entry["$ref"].rsplit("/", 1)[-1]]
        return found
    return entry


def _object(entry: Schema, root: Schema) -> Schema | None:
    """Return the schema of a section, or None for a plain key."""
    named = entry.get("patternProperties", {}).values()
    for option in [entry, *entry.get("anyOf", []), *entry.get("allOf", []), *named]:
        resolved = _resolved(option, root)
        if "properties" in resolved:
            return resolved
    return None


def _allowed(entry: Schema, root: Schema) -> str:
    """Describe the allowed values of a key."""
    entry = _resolved(entry, root)
    if "anyOf" in entry:
        return " or ".join(dict.fromkeys(_allowed(option, root) for option in entry["anyOf"]))
    if "enum" in entry:
        return ", ".join(f"`{value}`" for value in entry["enum"])
    if "const" in entry:
        return f"`{entry['const']}`"
    match entry.get("type"):
        case "array":
            return f"list of {_allowed(entry.get('items', {}), root)}"
        case "object":
            return "mapping"
        case "integer" | "number" as kind:
            return ("integer" if kind == "integer" else "number") + _bounds(entry)
        case "boolean":
            return "true or false"
        case "string":
            return "text"
        case "null":
            return "null"
    return "any value"


def _bounds(entry: Schema) -> str:
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    # The largest seed is of no interest.
    said = [f" {sign} {entry[key]:g}" for key, sign in signs.items() if entry.get(key, 1e9) < 1e9]
    return ",".join(said)


def _yaml(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    return str(value) if isinstance(value, str) else json.dumps(value)


def _cell(text: str) -> str:
    """Format text for a table cell."""
    return " ".join(text.split()).replace("|", r"\|").replace("<", "&lt;").rstrip(".")


# ---------------------------------------------------------------- command line


def _command_line() -> str:
    root = typer.main.get_command(app)
    parts = [
        "# Command line\n",
        f"{root.help}\n",
        "Exit status: 0 success, 1 a search that failed or a configuration in which `swarm check`"
        " finds errors, 2 bad input, or a store, server or database that cannot be reached, 130"
        " Ctrl-C before there is an answer, 143 SIGTERM. Progress and messages go to standard"
        " error, results to standard output.\n",
    ]
    commands = list(_commands(root, ""))
    times = Counter(row for _, command in commands for row in _options(command).values())
    shared = {row for row, times in times.items() if times > 2}
    parts += ["Of several commands:\n", _table(row for row in times if row in shared)]
    for name, command in commands:
        options = _options(command)
        parts += [f"## swarm {name}\n", _told(command)]
        if own := [row for row in options.values() if row not in shared]:
            parts.append(_table(own))
        if above := [option for option, row in options.items() if row in shared]:
            parts.append(f"As above: {_listed(above)}.\n")
    return "\n".join(parts).rstrip() + "\n"


def _commands(group: Any, above: str) -> Iterator[tuple[str, Any]]:
    for name, command in sorted(group.commands.items()):
        if hasattr(command, "commands"):
            yield from _commands(command, f"{above}{name} ")
        else:
            yield f"{above}{name}", command


def _told(command: Any) -> str:
    return inspect.cleandoc(command.help or "").split("\f")[0] + "\n"


def _argument(argument: Any) -> str:
    name = argument.name.upper() + ("..." if argument.nargs == -1 else "")
    return name if argument.required else f"[{name}]"


def _choices(annotation: Any) -> Iterator[str]:
    """Yield the values of a literal type, which may be optional."""
    for each in get_args(annotation):
        if isinstance(each, str):
            yield each
        else:
            yield from _choices(each)


def _options(command: Any) -> dict[str, str]:
    """Return the row of each argument and option by its name."""
    rows = {}
    for each in command.params:
        if each.param_type_name == "argument":
            name = _argument(each)
            named, default = f"`{name}`", "required" if each.required else ""
        else:
            flag = each.is_flag or getattr(each, "count", False)
            number = isinstance(each.default, int | float)
            choices = "\\|".join(_choices(each.type_descriptor.annotation))
            kind = each.metavar or choices or ("NUMBER" if number else "TEXT")
            value = "" if flag else f" {kind}"
            name = max(each.opts, key=len)
            named = ", ".join(f"`{option}{value}`" for option in sorted(each.opts, key=len))
            default = "" if flag or each.default in (None, "") else f"`{each.default}`"
        rows[name] = f"| {named} | {default} | {_cell(each.help or '')} |"
    return rows


def _table(rows: Iterable[str]) -> str:
    return "\n".join(["| | default | |\n|---|---|---|", *rows]) + "\n"


# ---------------------------------------------------------------- strategies


def _strategies() -> str:
    formulas = yaml.safe_load((DOCS / "formulas.yaml").read_text(encoding="utf-8"))
    entries = [entry for entry in catalogue() if entry.package is None]
    parts = [
        "# Strategies\n",
        "Every registered strategy; [choose](choose.md) compares them. A mask is a row of bits over"
        " the *units*: features, or groups of features. [Sources](sources.md) lists the papers.\n",
        "In a configuration: `strategy: {name: NAME, params: {...}}`; in Python"
        ' `SubsetSelector(model, strategy="NAME", strategy_params={...})`; in the terminal'
        " `swarm strategies NAME`.\n",
        "| strategy | description | needs |\n|---|---|---|",
        "\n".join(
            f"| [`{each.name}`](#{each.name}) | {_cell(each.line)} |"
            f" {', '.join(make(each.name).needs) or '-'} |"
            for each in entries
        )
        + "\n",
        "What a strategy *needs* is computed before the search, from training rows only:"
        " clusters and distances from Spearman's correlations, relevance and redundancy from mutual"
        " information.\n",
    ]
    told: dict[str, str] = {}
    for entry in entries:
        parts += _strategy(entry, formulas.get(entry.name), told)
    return "\n".join(parts).rstrip() + "\n"


def _strategy(entry: StrategyEntry, formula: str | None, told: dict[str, str]) -> Iterator[str]:
    """Yield the section of a strategy; `told` has the strategy that each long text stands at."""
    made_by = registry()[entry.name]
    yield f"## {entry.name}\n"
    if formula:
        yield f"```text\n{formula.rstrip()}\n```\n"
    if entry.parameters:
        yield "| parameter | default | description |\n|---|---|---|"
        # Parameters that stand together in the docstring have one description.
        rows = [
            _parameters(list(together), _once(_cell(_plain(text)), entry.name, told).rstrip("."))
            for text, together in groupby(entry.parameters, key=lambda each: each.text)
        ]
        yield "\n".join(rows) + "\n"
    else:
        yield "It has no parameters.\n"
    of_class = parse(made_by.__doc__ or "", DocstringStyle.NUMPYDOC)
    for text in (of_class.long_description, _body(inspect.getmodule(made_by).__doc__)):
        if text:
            yield f"{_once(_plain(text), entry.name, told, 'Text and sources as')}\n"
    cited = re.search(r"References\n-+\n(.*)", inspect.cleandoc(made_by.__doc__ or ""), re.DOTALL)
    if cited:
        yield f"Source: {_plain(cited[1].strip())}\n"


def _parameters(together: Sequence[Parameter], text: str) -> str:
    names = ", ".join(f"`{each.name}`" for each in together)
    defaults = ", ".join(f"`{_yaml(each.default)}`" for each in together)
    return f"| {names} | {defaults} | {text} |"


def _once(text: str, name: str, told: dict[str, str], alike: str = "As") -> str:
    """Refer to the strategy where a text of several lines stands already."""
    first = told.setdefault(text, name)
    return text if first == name or len(text) < 100 else f"{alike} for [`{first}`](#{first})."


# ---------------------------------------------------------------- findings


def _findings() -> str:
    parts = [
        "# Findings\n",
        "A finding is a numbered reason to doubt the data, the configuration or the result. Codes"
        " below 100 concern the configuration, from 101 data and folds, from 201 the search and its"
        " result, from 301 a champion. Codes never change and are never reused; texts may.\n",
        "- An **error** prevents a run; `swarm check` lists all of them, a run ends with the"
        " first.\n"
        "- A **warning** is a reason to doubt a score or a subset.\n"
        "- A **note** states a choice that was made by default.\n",
        "They are printed, a line each, the gravest first; the report has a section of them. The"
        " run has the artifact `findings.json`, and their codes in the tag `findings`: filter runs"
        " in MLflow by"
        " `tags.findings LIKE '%SWM114%'`. `SubsetSelector` has `findings_`. Findings about the"
        " data use training rows only.\n",
        "To leave one out: `--mute SWM112` (repeatable), `mute: [SWM112]` in the configuration, or"
        ' `SubsetSelector(model, mute=["SWM112"])`. Errors cannot be muted.\n',
        "In a configuration columns are dropped by `data.drop`, declared by `data.categorical` and"
        " `data.dates`, and groups of rows by `data.group`; in Python by what pandas has, and by"
        " `groups` of `fit`.\n",
    ]
    for kind in KINDS.values():
        parts += [
            f"## {kind.code}\n",
            f"**{kind.title}** ({kind.severity}). {kind.reason}\n",
            f"What to do: {kind.remedy}.\n",
        ]
    return "\n".join(parts).rstrip() + "\n"


# ---------------------------------------------------------------- pictures

# Functions in the order of their calls; one that is indented is called in the file of its caller.
_PICTURES = {
    "mask": """
        swarm.search.driver:Driver.step
          swarm.strategies.base:Strategy.propose
          swarm.evaluation.crossval:CrossValidation.evaluate
            swarm.storage.archive:ProblemEvaluations.lookup
            swarm.fastpaths.choose:evaluate_masks
            swarm.evaluation.workers:Workers.run
              swarm.evaluation.fitting:fit_mask
                swarm.problem.problem:Problem.cost
                  swarm.problem.scoring:Scoring.cost
            swarm.storage.archive:ProblemEvaluations.add
            swarm.storage.records:costs_of
          swarm.strategies.base:Strategy.observe
    """,
    "answer": """
        flows.select:search_and_evaluate
          tasks.steps:run_epoch
          tasks.steps:rank_units
            swarm.search.fresh_folds:measure_rivals
          tasks.steps:confirm_fresh
            swarm.search.fresh_folds:confirm_on_fresh_folds
              swarm.search.fresh_folds:candidates
              swarm.search.confirmation:Confirmation
          flows.run.answer:fit
            swarm.search.result:SearchResult.best_members
              swarm.search.result:SearchResult.candidates
                swarm.search.confirmation:Confirmation.in_order
                  swarm.search.confirmation:Confirmation.chosen
                    swarm.search.candidates:pick
          flows.run.answer:evaluate
            tasks.steps:judge_answer
              swarm.validation.judgement:judge
            swarm.validation.verdict:headline
          flows.run.answer:register
            tasks.steps:register_model
    """,
    "refresh": """
        flows.refresh:refresh
          flows.run.configured:fetch_as_configured
          flows.run.challenge:Challenge.check_columns
          flows.run.challenge:Challenge.check_drift
          flows.run.challenge:Challenge.check_rows
          flows.select:search_and_evaluate
          flows.run.challenge:Challenge.decide
            tasks.refresh.decision:find_trained_rows
            tasks.refresh.decision:measure
              tasks.refresh.paired_comparison:duel
            tasks.refresh.champion:Champions.promote
            tasks.refresh.decision:complete_change
    """,
}


def _with_pictures(page: str) -> str:
    """Draw each picture between its markers, or raise if the page lacks them."""
    for name, calls in _PICTURES.items():
        begin, end = f"<!-- picture: {name}, by docs/generate.py -->\n", "<!-- end -->"
        before, marker, after = page.partition(begin)
        rest = after[after.index(end) :]
        page = f"{before}{marker}```text\n{_picture(calls)}\n```\n{rest}"
    return page


def _picture(calls: str) -> str:
    """Draw a tree of calls, or raise if a function or its call is gone."""
    lines = inspect.cleandoc(calls).splitlines()
    depths = [(len(line) - len(line.lstrip())) // 2 for line in lines]
    callers: list[str] = []
    drawn: list[str] = []
    for row, depth in enumerate(depths):
        function = _function(lines[row].strip())
        if depth:
            _require_call(callers[depth - 1], lines[row])
        callers[depth:] = [function.__module__]
        # At these levels a later function has the same caller.
        later = depths[row + 1 :]
        is_open = [
            level in later and min(later[: later.index(level)], default=level) >= level
            for level in range(1, depth + 1)
        ]
        bars = "".join("│  " if each else "   " for each in is_open)
        branch = ("├─ " if is_open[-1] else "└─ ") if depth else ""
        file = function.__module__.replace(".", "/") + ".py"
        drawn.append(f"{bars[:-3]}{branch}{function.__qualname__}".ljust(52) + file)
        beside = bars + ("│  " if later and later[0] > depth else "   ")
        sentence = re.split(r"(?<=\.)\s|\n\n", _plain(inspect.getdoc(function) or ""))[0]
        drawn += textwrap.wrap(
            sentence.replace("`", ""), 97, initial_indent=beside, subsequent_indent=beside
        )
    return "\n".join(drawn)


def _function(path: str) -> Any:
    """Return the function, or the class, behind a path such as ``module:Class.method``."""
    found = pkgutil.resolve_name(path)
    # Tasks, flows and properties are objects around a function.
    for attribute in ("fn", "fget", "func"):
        found = getattr(found, attribute, found)
    return found


def _require_call(caller: str, path: str) -> None:
    """Raise if the module of the caller does not mention a function."""
    name = re.split(r"[.:]", path)[-1]
    if not re.search(rf"\b{name}\b", inspect.getsource(sys.modules[caller])):
        raise AttributeError(f"{caller} does not call {path.strip()}; correct _PICTURES")


def _body(text: str | None) -> str:
    """Return a docstring without its first line."""
    return inspect.cleandoc(text or "").partition("\n")[2].strip()


def _plain(text: str) -> str:
    """Convert reStructuredText markup to Markdown."""
    return re.sub(r":\w+:`([^`]*)`", r"`\1`", text).replace("``", "`")


def main() -> None:
    """Write the pages that have changed, or with ``--check`` only name them and exit with 1."""
    checks = sys.argv[1:] == ["--check"]
    changed = False
    for name, text in pages().items():
        file = DOCS / name
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            changed = True
            if not checks:
                file.write_text(text, encoding="utf-8")
            sys.stdout.write(
                f"docs/{name} is old: make pages\n" if checks else f"wrote docs/{name}\n"
            )
    sys.exit(checks and changed)


if __name__ == "__main__":
    main()

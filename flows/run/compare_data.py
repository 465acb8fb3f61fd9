"""The data sets of a comparison, fetched and prepared before any search."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Self

from conf.schema import CompareConfig
from flows.run.configured import (
    PreparedData,
    archive_url,
    fetch_as_configured,
    prepare_as_configured,
    probe_as_configured,
    search_as_configured,
)
from flows.study import CellInputs
from swarm.errors import InputError
from swarm.findings import Finding, unmuted
from swarm.report.comparison import ComparedDataset
from swarm.storage.archive import Archive
from swarm.strategies.catalogue import make
from tasks.steps import positive_of
from tasks.study import Cell, cost_of_all, cost_on_test_rows

# Findings by data set.
Findings = Mapping[str, tuple[Finding, ...]]
# Rows are identified by a data set and the shift of the seed of its split, 0 if seeds share them.
_Key = tuple[str, int]


@dataclass(frozen=True, eq=False)
class ComparedData:
    """The prepared data sets of a comparison, which all searches share."""

    config: CompareConfig
    data: Mapping[_Key, PreparedData]
    findings: Findings
    url: str

    @classmethod
    def of(cls, config: CompareConfig) -> Self:
        """Fetch and prepare every data set, so that bad input is reported before any search."""
        label = next(iter(config.strategies))
        needs = _needs(config)
        prepared: dict[_Key, PreparedData] = {}
        by_code: dict[str, dict[str, Finding]] = {}
        for name in config.datasets:
            with _name_in_errors(name):
                table = fetch_as_configured(config.as_select(name, label))
                split = config.split_of(name) is not None
                for seed in config.seed_list:
                    key = name, config.shift(seed)
                    if key in prepared:
                        continue
                    select = config.as_select(name, label, seed)
                    data = prepare_as_configured(select, table, needs=needs, seed=0, hold_out=split)
                    prepared[key] = data
                    new_findings = {finding.code: finding for finding in data.findings}
                    by_code[name] = {**new_findings, **by_code.get(name, {})}
        findings = {name: unmuted(codes.values(), config.mute) for name, codes in by_code.items()}
        return cls(config, prepared, findings, archive_url(config.archive))

    def inputs(self, cell: Cell) -> CellInputs:
        """Return what a search runs on."""
        config = self.config.as_select(cell.dataset, cell.strategy, cell.seed)
        data = self.data[cell.dataset, self.config.shift(cell.seed)]
        return CellInputs(config, data, {"dataset": cell.dataset})

    def fingerprints(self, cells: Sequence[Cell]) -> dict[Cell, str]:
        """Return the fingerprint of the problem of each search."""
        fingerprints = {key: data.problem.fingerprint() for key, data in self.data.items()}
        return {cell: fingerprints[cell.dataset, self.config.shift(cell.seed)] for cell in cells}

    def probe(self) -> None:
        """Probe the model of every data set before a run is opened."""
        label = next(iter(self.config.strategies))
        with closing(Archive(self.url)) as archive:
            for (name, _), data in self.data.items():
                with _name_in_errors(name):
                    select = self.config.as_select(name, label)
                    probe_as_configured(select, data, search_as_configured(select, data), archive)

    def evaluate_all_features(self) -> dict[str, ComparedDataset]:
        """Evaluate all features of each data set, and describe it."""
        described = {}
        for name in self.config.datasets:
            splits = [data for (dataset, _), data in self.data.items() if dataset == name]
            problem = splits[-1].problem
            space = problem.space
            positive = positive_of(problem)
            all_columns = space.subset(~space.forbidden)
            tests = [data.test for data in splits if data.test is not None]
            test_costs = [
                cost_on_test_rows(data.problem, all_columns, data.test)
                for data in splits
                if data.test is not None
            ]
            described[name] = ComparedDataset(
                scoring=problem.scoring,
                n_features=space.n_allowed,
                fixed=space.subset(space.fixed),
                positive=None if positive is None else str(positive),
                cost=_mean([cost_of_all(data.problem, self.url) for data in splits]),
                test_cost=_mean(test_costs) if test_costs else None,
                n_train=_mean([len(data.train.features) for data in splits]),
                n_test=_mean([len(test.features) for test in tests]) if tests else 0.0,
            )
        return described


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


@contextmanager
def _name_in_errors(dataset: str) -> Iterator[None]:
    """Name the data set in errors about its input."""
    try:
        yield
    except InputError as error:
        raise type(error)(f"data set {dataset!r}: {error}") from None


def _needs(config: CompareConfig) -> tuple[str, ...]:
    """Return the names of all hints that the strategies need."""
    sections = map(config.strategy, config.strategies)
    strategies = (make(section.name, section.params) for section in sections)
    return tuple(dict.fromkeys(need for strategy in strategies for need in strategy.needs))

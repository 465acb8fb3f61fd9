"""The data sets of a comparison, fetched and prepared before any search."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass

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

# The findings of each data set.
Findings = Mapping[str, tuple[Finding, ...]]
# A data set, and the shift of the seed of its split: 0 if all seeds share their rows.
_Key = tuple[str, int]


@dataclass(frozen=True, eq=False)
class ComparedData:
    """The data sets of a comparison, and what of them is the same for all searches."""

    config: CompareConfig
    data: Mapping[_Key, PreparedData]
    findings: Findings
    url: str

    @classmethod
    def of(cls, config: CompareConfig) -> ComparedData:
        """Fetch and prepare every data set, so that bad input is reported before any search."""
        first, needs = next(iter(config.strategies)), _needs(config)
        prepared, by_code = dict[_Key, PreparedData](), dict[str, dict[str, Finding]]()
        for name in config.datasets:
            with _name_in_errors(name):
                table = fetch_as_configured(config.as_select(name, first))
                split = config.split_of(name) is not None
                for seed in config.seed_list:
                    key = name, config.shift(seed)
                    if key in prepared:
                        continue
                    select = config.as_select(name, first, seed)
                    data = prepare_as_configured(select, table, needs=needs, seed=0, hold_out=split)
                    fresh = {each.code: each for each in data.findings}
                    prepared[key], by_code[name] = data, {**fresh, **by_code.get(name, {})}
        findings = {name: unmuted(each.values(), config.mute) for name, each in by_code.items()}
        return cls(config, prepared, findings, archive_url(config.archive))

    def inputs(self, cell: Cell) -> CellInputs:
        """Return what a search runs on."""
        config = self.config.as_select(cell.dataset, cell.strategy, cell.seed)
        data = self.data[cell.dataset, self.config.shift(cell.seed)]
        return CellInputs(config, data, {"dataset": cell.dataset})

    def fingerprints(self, cells: Sequence[Cell]) -> dict[Cell, str]:
        """Return the fingerprint of the problem of each search."""
        known = {key: data.problem.fingerprint() for key, data in self.data.items()}
        return {cell: known[cell.dataset, self.config.shift(cell.seed)] for cell in cells}

    def probe(self) -> None:
        """Probe the model of every data set before a run is opened."""
        first = next(iter(self.config.strategies))
        with closing(Archive(self.url)) as archive:
            for (name, _), data in self.data.items():
                with _name_in_errors(name):
                    select = self.config.as_select(name, first)
                    probe_as_configured(select, data, search_as_configured(select, data), archive)

    def evaluate_all_features(self) -> dict[str, ComparedDataset]:
        """Evaluate all features of each data set, and describe it."""
        described = {}
        for name in self.config.datasets:
            parts = [data for (dataset, _), data in self.data.items() if dataset == name]
            tested = [(part, part.test) for part in parts if part.test is not None]
            problem = parts[-1].problem
            space, positive = problem.space, positive_of(problem)
            everything = space.subset(~space.forbidden)
            test_costs = [
                cost_on_test_rows(part.problem, everything, test) for part, test in tested
            ]
            described[name] = ComparedDataset(
                scoring=problem.scoring,
                n_features=space.n_allowed,
                fixed=space.subset(space.fixed),
                positive=None if positive is None else str(positive),
                cost=_mean([cost_of_all(part.problem, self.url) for part in parts]),
                test_cost=_mean(test_costs) if test_costs else None,
                n_train=_mean([len(part.train.features) for part in parts]),
                n_test=_mean([len(test.features) for _, test in tested]) if tested else 0.0,
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
    rivals = map(config.strategy, config.strategies)
    needs = (name for rival in rivals for name in make(rival.name, rival.params).needs)
    return tuple(dict.fromkeys(needs))

"""Searches without models: planted costs, random search spaces, and the epochs of a strategy."""

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from swarm.arrays import AnyArray, Bool, Float, Int
from swarm.errors import EvaluationError
from swarm.evaluation.pruning import limits_of, needed_folds, next_fold
from swarm.evaluation.types import Evaluations, Work
from swarm.problem.hints import Hints
from swarm.problem.space import SearchSpace
from swarm.search.budget import Budget
from swarm.search.driver import Driver
from swarm.search.result import SearchResult
from swarm.storage.records import Record, costs_of
from swarm.strategies.base import Proposal, Strategy


def _never(mask: Bool) -> bool:
    return False


@dataclass
class Planted:
    """An evaluator of additive costs: ``base[f] + sum of weights[f, units of the mask]``.

    Parameters
    ----------
    weights : float64 (n_folds, n_units)
        Negative for helpful units.
    base : float64 (n_folds,)
        Large enough that no fold cost is negative.
    pruning : bool
        Whether masks worse than their incumbent are censored, without training the other folds.
    importances : bool
        Whether importances are the absolute weights; else they are zero.
    unused_below : float
        Units whose absolute weight is at most this are reported as unused.
    exact_shrink : bool
        Only correct if unused units have a weight of exactly 0.
    fails, undefined : callable
        Predicates of masks whose fit on the last fold raises, and of masks whose cost is NaN.
    records : dict
        The archive. Pass it to another evaluator to resume a search.
    interrupt_after : int, optional
        Raise KeyboardInterrupt after this many trained folds.
    """

    space: SearchSpace
    weights: Float
    base: Float
    pruning: bool = True
    importances: bool = True
    unused_below: float = 0.0
    exact_shrink: bool = True
    fails: Callable[[Bool], bool] = _never
    undefined: Callable[[Bool], bool] = _never
    records: dict[bytes, Record] = field(default_factory=dict)
    interrupt_after: int | None = None
    fits: int = 0
    n_folds: int = field(init=False)

    def __post_init__(self) -> None:
        self.n_folds = len(self.base)

    def fold_cost(self, mask: Bool, fold: int) -> float:
        """True cost on one fold, ignoring failures."""
        return float(self.base[fold] + np.sum(self.weights[fold] * mask))

    def cost(self, mask: Bool) -> float:
        """True cost, with the summation of :class:`Record`."""
        costs = [self.fold_cost(mask, fold) for fold in range(self.n_folds)]
        return float(costs_of(np.array([costs]))[0])

    def evaluate(self, masks: Bool, incumbents: Float, fold_order: Int) -> Evaluations:
        """Evaluate masks; see :class:`swarm.evaluation.types.Evaluator`."""
        highest = incumbents if self.pruning else np.full(len(masks), np.inf)
        limits = limits_of(highest)
        keys = [row.tobytes() for row in np.packbits(masks, axis=1)]
        limit_of: dict[bytes, float] = {}
        for key, limit in zip(keys, limits.tolist(), strict=True):
            limit_of[key] = max(limit, limit_of.get(key, -np.inf))
        fits_before = self.fits
        hits = len(limit_of)
        for mask, key in zip(masks, keys, strict=True):
            if key in limit_of:
                hits -= self._train(mask, key, fold_order, limit_of.pop(key))
        records = [self.records[key] for key in keys]
        fold_costs = np.array([record.fold_costs for record in records])
        costs = costs_of(fold_costs)
        costs[np.isnan(costs)] = np.inf
        needed, _ = needed_folds(fold_costs, fold_order, limits)
        # A failure counts only on folds that pruning would reach: pruning must not change a result.
        reached, _ = needed_folds(fold_costs, fold_order, limits_of(incumbents))
        failed = (np.isinf(fold_costs) & reached).any(axis=1)
        censored = ~failed & ~(needed.all(axis=1) & (costs <= highest))
        is_exact = np.isfinite(costs) & ~failed & ~censored
        importances = np.zeros(masks.shape)
        used = masks.copy()
        for i in np.flatnonzero(is_exact).tolist():
            importances[i] = records[i].importance(masks[i])
            used[i] = records[i].units_used(masks[i])
        errors = (record.error for record in itertools.compress(records, failed))
        return Evaluations(
            costs=np.where(is_exact, costs, np.inf),
            fold_costs=np.where(is_exact[:, None], fold_costs, np.nan),
            importances=importances,
            used=used,
            censored=censored,
            failed=failed,
            needed=needed,
            exact_shrink=self.exact_shrink,
            work=Work(self.fits - fits_before, hits),
            first_error=next(errors, None),
        )

    def _train(self, mask: Bool, key: bytes, fold_order: Int, limit: float) -> bool:
        """Train the folds that the mask needs, in order; return whether there were any."""
        record = self.records.get(key)
        if record is None:
            record = self.records[key] = Record.unknown(self.n_folds, int(mask.sum()))
        before = self.fits
        while (fold := next_fold(record.fold_costs, fold_order, limit)) is not None:
            if self.fits == self.interrupt_after:
                raise KeyboardInterrupt
            self.fits += 1
            self._fit(mask, fold, key)
        return self.fits > before

    def _fit(self, mask: Bool, fold: int, key: bytes) -> None:
        """Write the results of a fold into the record of the mask."""
        record = self.records[key]
        is_last = fold == self.n_folds - 1
        if is_last and self.undefined(mask):
            names = ", ".join(self.space.subset(mask))
            raise EvaluationError(f"the cost of the subset ({names}) is NaN on fold {fold}; fix it")
        if is_last and self.fails(mask):
            record.fold_costs[fold] = np.inf
            record.used[fold] = True
            bits = "".join("01"[bit] for bit in mask.astype(int))
            error = f"ValueError: cannot fit {bits}\nTraceback (planted)"
            self.records[key] = replace(record, error=error)
            return
        weights = np.abs(self.weights[fold][mask])
        record.fold_costs[fold] = self.fold_cost(mask, fold)
        record.used[fold] = weights > self.unused_below
        record.importances[fold] = weights if self.importances else 0.0


def planted(
    space: SearchSpace, seed: int = 0, *, n_folds: int = 3, helpful: int | None = None
) -> Planted:
    """Return a problem with `helpful` units (default: a third) and a unit that no model uses."""
    rng = np.random.default_rng([seed, space.n_units])
    n_units = space.n_units
    count = max(1, n_units // 3) if helpful is None else helpful
    weight = rng.uniform(0.001, 0.01, n_units)
    weight[rng.permutation(n_units)[:count]] *= -3
    weights = weight + rng.normal(0, 0.0002, (n_folds, n_units))
    if n_units > 3:
        weights[:, rng.integers(n_units)] = 0.0
    base = rng.uniform(0.005, 0.02, n_folds) - np.minimum(weights, 0).sum(axis=1)
    return Planted(space, weights, base)


def constant(space: SearchSpace, cost: float = 0.5) -> Planted:
    """Return a problem in which every mask has the same cost."""
    return Planted(space, np.zeros((3, space.n_units)), np.full(3, cost))


def plain_space(n_units: int, **constraints: Any) -> SearchSpace:
    """Return a space of the columns x0, x1, ...; `constraints` as in :meth:`SearchSpace.build`."""
    return SearchSpace.build([f"x{i}" for i in range(n_units)], **constraints)


def hints_for(
    space: SearchSpace, seed: int = 0, warm: Bool | None = None, weights: Float | None = None
) -> Hints:
    """Return all hints, random but valid and read-only.

    With `weights` of a planted problem the relevance is roughly proportional to the benefit of a
    unit, and the redundancy is low, so that strategies guided by relevance can find the optimum.
    """
    rng = np.random.default_rng([seed, space.n_units, 99])
    half = np.triu(rng.random((space.n_units, space.n_units)), 1)
    clusters = rng.integers(max(1, space.n_units // 2), size=space.n_units)
    labels = np.unique(clusters, return_inverse=True)[1].astype(np.int64)
    relevance = rng.random((space.n_units, 2))
    shared = np.triu(rng.random((space.n_units, space.n_units)), 0)
    if weights is not None:
        helpful = np.maximum(-weights.mean(axis=0), 0.0)
        relevance = 10.0 * (helpful[:, None] + 0.01 * relevance)
        shared *= 0.01
    hints = Hints(half + half.T, labels, relevance, np.maximum(shared, shared.T), warm)
    for array in vars(hints).values():
        if array is not None:
            array.setflags(write=False)
    return hints


def make_driver(
    strategy: Strategy,
    evaluator: Planted,
    *,
    seed: int = 0,
    warm: Bool | None = None,
    budget: Budget | None = None,
    **limits: Any,
) -> Driver:
    """Return a search on `evaluator`; `limits` are those of the budget."""
    budget = Budget(**limits) if budget is None else budget
    hints = hints_for(evaluator.space, warm=warm, weights=evaluator.weights)
    return Driver(
        strategy=strategy,
        space=evaluator.space,
        evaluator=evaluator,
        hints=hints,
        seed=seed,
        budget=budget,
    )


def everything(result: SearchResult) -> str:
    """Serialise everything that must be identical in two runs of the same search."""
    parts = [result.history.to_csv(), result.reason, str(result.state.counts)]
    parts += [repr(record.particles.to_dict("list")) for record in result.records]
    parts += [str(result.best_mask.tolist()), repr(result.cost)]
    return "\n".join(parts)


@dataclass
class Step:
    """The states, the proposal and the evaluations of one epoch."""

    before: Any
    moved: Any
    proposal: Proposal
    evaluations: Evaluations
    after: Any


def drive(
    strategy: Strategy,
    evaluator: Planted,
    *,
    seed: int = 0,
    epochs: int = 6,
    warm: Bool | None = None,
) -> list[Step]:
    """Run the protocol of a strategy without the driver, and return its epochs."""
    hints = hints_for(evaluator.space, warm=warm)
    state = strategy.start(evaluator.space, hints, np.random.default_rng([seed, 0]))
    order = np.arange(evaluator.n_folds)
    steps: list[Step] = []
    while len(steps) < epochs and not (steps and strategy.finished(state)):
        rng = np.random.default_rng([seed, len(steps) + 1])
        moved, proposal = strategy.propose(state, rng)
        evaluations = evaluator.evaluate(proposal.masks, proposal.incumbents, order)
        after = strategy.observe(moved, proposal, evaluations)
        steps.append(Step(state, moved, proposal, evaluations, after))
        state = after
    return steps


def arrays(data: object, path: str = "") -> dict[str, AnyArray]:
    """Every array in a state, by its path."""
    if isinstance(data, np.ndarray):
        return {path: data}
    by_path: dict[str, AnyArray] = {}
    if dataclasses.is_dataclass(data):
        for field in dataclasses.fields(data):
            by_path |= arrays(getattr(data, field.name), f"{path}.{field.name}")
    elif isinstance(data, (tuple, list)):
        for i, item in enumerate(data):
            by_path |= arrays(item, f"{path}[{i}]")
    return by_path


def snapshot(data: object) -> dict[str, bytes]:
    """Copy every array in a state, for a later comparison."""
    return {path: array.tobytes() for path, array in arrays(data).items()}


def proposed(steps: list[Step]) -> list[bytes]:
    """Proposed masks of every epoch, as bytes."""
    return [step.proposal.masks.tobytes() for step in steps]


def failed_evaluations_of(proposal: Proposal) -> Evaluations:
    """Return evaluations in which every fit failed."""
    n = len(proposal.masks)
    return Evaluations(
        costs=np.full(n, np.inf),
        fold_costs=np.full((n, 3), np.nan),
        importances=np.zeros(proposal.masks.shape),
        used=proposal.masks.copy(),
        censored=np.zeros(n, dtype=bool),
        failed=np.ones(n, dtype=bool),
        needed=np.ones((n, 3), dtype=bool),
        exact_shrink=True,
        work=Work(),
        first_error="ValueError: planted\nTraceback (planted)",
    )


def all_masks(space: SearchSpace) -> Iterator[Bool]:
    """Yield every mask that satisfies the constraints of a small space."""
    for bits in itertools.product((False, True), repeat=space.n_units):
        mask = np.array(bits)
        if space.obeys(mask[None, :])[0]:
            yield mask


@st.composite
def spaces(draw: st.DrawFn, max_columns: int = 12) -> SearchSpace:
    """Draw a valid space with groups, fixed and forbidden units and size bounds."""
    columns = [f"x{i}" for i in range(draw(st.integers(1, max_columns)))]
    owner = draw(st.lists(st.integers(-4, 2), min_size=len(columns), max_size=len(columns)))
    groups = {
        f"g{g}": [c for c, o in zip(columns, owner, strict=True) if o == g]
        for g in range(3)
        if g in owner
    }
    names = SearchSpace.build(columns, groups=groups).names
    roles = draw(
        st.lists(st.sampled_from("ffoooob"), min_size=len(names), max_size=len(names)).filter(
            lambda roles: set(roles) != {"b"}
        )
    )
    fixed = [name for name, role in zip(names, roles, strict=True) if role == "f"]
    forbidden = [name for name, role in zip(names, roles, strict=True) if role == "b"]
    allowed = len(names) - len(forbidden)
    largest = draw(st.integers(max(1, len(fixed)), allowed))
    return SearchSpace.build(
        columns,
        groups=groups,
        fixed=fixed,
        forbidden=forbidden,
        min_size=draw(st.integers(1, largest)),
        max_size=draw(st.sampled_from([None, largest])),
    )

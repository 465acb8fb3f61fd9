"""Mutation testing of a sample: ``make mutants``, or ``python -m tests.mutants``.

The operators are mutmut's. The runner is a pytest plugin: it collects the tests once, in a copy of
the checkout, and forks a process for every mutant. There the code of the functions that are already
imported is replaced, and the tests that reach the changed statement run until one fails. Which
tests reach which line is measured before, in a process for every test file. An interrupted run is
continued by the same command, with the copy in ``build/mutants``. ``python -m tests.mutants
search storage`` draws from these packages alone, and ``--tests tests/swarm/search`` runs these
alone, which can only lower a score.

A survivor that no test can notice has its reason in the score, written there by hand and kept.

A mutant is drawn by a hash of the function's name and of what changes, so a later draw has the same
mutants in code that was kept or moved, and the scores of the two can be compared.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import hashlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCORE = ROOT / "tests" / "mutation.json"
PACKAGES = {
    "strategies": "swarm/strategies",
    "search": "swarm/search",
    "evaluation": "swarm/evaluation",
    "storage": "swarm/storage",
    "validation": "swarm/validation",
    "ensemble": "swarm/ensemble.py",
    "refresh": "tasks/refresh",
}
SEED = 36
PER_PACKAGE = 60
# These fixtures start servers, which takes longer than all tests of a mutant.
SERVERS = {"prefect_server", "postgres"}
# A mutant has to survive tests of this much processor time, as the map measured it.
BUDGET_SECONDS = 10.0

Row = dict[str, Any]


def mutants_of(file: Path) -> Iterator[Row]:
    """Yield the mutants of a file; what only drawn mutants need is computed by functions."""
    import libcst as cst
    from libcst.metadata import MetadataWrapper, ParentNodeProvider, PositionProvider
    from mutmut.mutation.mutators import mutation_operators

    wrapper = MetadataWrapper(cst.parse_module(file.read_bytes()), unsafe_skip_copy=True)
    module = wrapper.module
    places, parents = map(wrapper.resolve, (PositionProvider, ParentNodeProvider))
    seen = Counter[tuple[tuple[str, ...], str]]()

    def text(node: cst.CSTNode) -> str:
        return " ".join(module.code_for_node(node).split())

    def walk(node: cst.CSTNode, names: tuple[str, ...], inside: bool) -> Iterator[Row]:
        # Types, decorators, defaults, errors and docstrings are not mutated.
        if isinstance(node, cst.Annotation | cst.Decorator | cst.Parameters | cst.Raise) or (
            isinstance(node, cst.Expr) and isinstance(node.value, cst.SimpleString)
        ):
            return
        if isinstance(node, cst.FunctionDef | cst.ClassDef):
            # numba compiles these functions, so their code cannot be replaced.
            if any("jit" in text(decorator) for decorator in node.decorators):
                return
            names = (*names, node.name.value)
            inside = isinstance(node, cst.FunctionDef)
        operators = [operator for cls, operator in mutation_operators if isinstance(node, cls)]
        changes = [change for operator in operators for change in operator(node)] if inside else []
        if isinstance(node, cst.SimpleString):
            # Names are mutated once, and sentences are not.
            changes = [] if " " in node.value else changes[:1]
        if changes:
            statement = node
            original = text(node)
            # An elif is an If within an If.
            while not isinstance(statement, cst.If) and not isinstance(
                parents[statement], cst.BaseSuite
            ):
                statement = parents[statement]
            lines = [places[statement].start.line, places[node].end.line]
            seen[names, original] += 1
            name = (SEED, ".".join(names), original, seen[names, original])
        for number, change in enumerate(changes):
            yield {
                "id": hashlib.sha256(repr((*name, number)).encode()).hexdigest()[:12],
                "lines": lines,
                "function": name[1],
                "change": lambda change=change: f"{name[2]} -> {text(change)}",
                "source": lambda change=change: module.deep_replace(node, change).code,
            }
        for child in node.children:
            yield from walk(child, names, inside)

    yield from walk(module, (), False)


def draw(root: Path, packages: Sequence[str]) -> list[Row]:
    """Draw the mutants with the lowest hashes in each package."""
    drawn = []
    for package in packages:
        place = PACKAGES[package]
        files = sorted((root / place).rglob("*.py")) or [root / place]
        mutants = [
            {"package": package, "file": str(file.relative_to(root)), **mutant}
            for file in files
            for mutant in mutants_of(file)
        ]
        drawn += sorted(mutants, key=lambda mutant: mutant["id"])[:PER_PACKAGE]
    return [
        {**mutant, "change": mutant["change"](), "source": mutant["source"]()} for mutant in drawn
    ]


# The plugin runs in the copy.


def pytest_configure() -> None:
    from hypothesis import settings

    settings.register_profile("mutants", derandomize=True, database=None)
    settings.load_profile("mutants")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = [item for item in items if not SERVERS & set(getattr(item, "fixturenames", ()))]


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    runner = _Runner(session, Path(os.environ["MUTANTS_WORK"]))
    runner.map()
    runner.run()
    return True


class _Runner:
    """The tests of a session, and the mutants."""

    def __init__(self, session: pytest.Session, work: Path) -> None:
        self.session = session
        self.work = work
        self.root = session.config.rootpath
        self.items = {item.nodeid: item for item in session.items}
        self.mutants: list[Row] = json.loads((work / "drawn.json").read_text())
        self.seconds: dict[str, float] = {}
        self.reaching = defaultdict[tuple[str, int], set[str]](set)
        self.sound: set[str] = set()
        # The collector does not list frozen objects.
        gc.unfreeze()
        self.functions = defaultdict[str, list[FunctionType]](list)
        for value in gc.get_objects():
            if type(value) is FunctionType:
                self.functions[value.__code__.co_filename].append(value)
        gc.freeze()

    def map(self) -> None:
        """Measure which tests pass, their processor time, and which lines they reach."""
        import coverage

        files = {mutant["file"] for mutant in self.mutants}
        for path in dict.fromkeys(item.path for item in self.session.items):
            passed = self.work / "map" / f"{path.stem}.json"
            data = str(passed.with_suffix(".coverage"))
            if not passed.exists():
                began = time.monotonic()
                self.fork(
                    lambda path=path, passed=passed, data=data: self.measure(path, passed, data)
                )
                print(f"{path.name} {time.monotonic() - began:.0f} s", flush=True)
            seconds = json.loads(passed.read_text()) if passed.exists() else {}
            self.seconds |= seconds
            measured = coverage.CoverageData(data)
            measured.read()
            for file in files:
                for line, tests in measured.contexts_by_lineno(str(self.root / file)).items():
                    self.reaching[file, line].update(seconds.keys() & set(tests))
        print(f"{len(self.seconds)} tests, {len(self.mutants)} mutants", flush=True)

    def measure(self, path: Path, passed: Path, data: str) -> bool:
        """Run the tests of a file, and save what they reach."""
        import coverage

        Path(data).unlink(missing_ok=True)
        tests = [name for name, item in self.items.items() if item.path == path]
        places = [str(self.root / place) for place in ("swarm/*", "tasks/*")]
        measured = coverage.Coverage(data_file=data, include=places, config_file=False)
        measured.start()
        results = self.results(tests, measured.switch_context)
        seconds = {test: took for test, is_passed, took in results if is_passed}
        measured.stop()
        measured.save()
        passed.write_text(json.dumps(seconds))
        return True

    def results(
        self, tests: Sequence[str], before: Callable[[str], object]
    ) -> Iterator[tuple[str, bool, float]]:
        """Run tests; yield whether each passed, and its processor time."""
        items = [self.items[test] for test in tests]
        for item, following in zip(items, [*items[1:], None], strict=True):
            before(item.nodeid)
            began = sum(os.times()[:4])
            n_failed = self.session.testsfailed
            self.session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            took = sum(os.times()[:4]) - began
            yield item.nodeid, self.session.testsfailed == n_failed, took

    def fork(self, work: Callable[[], bool], cpu: float = 3600) -> bool:
        """Return what a function returns in a fork; False if that does not live to return it."""
        folder = tempfile.mkdtemp(prefix="mutant-")
        pid = os.fork()
        if not pid:
            status = 1
            try:
                os.setsid()
                silent = os.open(os.devnull, os.O_WRONLY)
                os.dup2(silent, 1)
                os.dup2(silent, 2)
                # The wall clock also runs for other processes.
                resource.setrlimit(resource.RLIMIT_CPU, (int(cpu), int(cpu)))
                tempfile.tempdir = folder
                os.environ |= {"TMPDIR": folder, "PYTEST_DEBUG_TEMPROOT": folder}
                status = int(not work())
            finally:
                os._exit(status)
        _, status = os.waitpid(pid, 0)
        # The tests may have left processes behind.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)
        return status == 0

    def run(self) -> None:
        """Run the tests of each mutant that has no result yet."""
        results = self.work / "results.jsonl"
        done = {json.loads(line)["id"] for line in results.read_text().splitlines()}
        for number, mutant in enumerate(self.mutants, 1):
            if mutant["id"] in done:
                continue
            began = time.monotonic()
            killer = self.killer(mutant)
            while killer and killer not in self.sound:
                # A test may also fail as it runs alone.
                if self.fork(lambda killer=killer: self.passes([killer])):
                    self.sound.add(killer)
                else:
                    del self.seconds[killer]
                    killer = self.killer(mutant)
            n_tests = len(self.tests_of(mutant))
            row = {**mutant, "tests": n_tests, "killer": killer}
            del row["source"]
            with results.open("a") as file:
                file.write(json.dumps(row) + "\n")
            took = f"{number}: {time.monotonic() - began:.0f} s"
            verdict = killer or f"SURVIVED {n_tests} tests"
            print(took, mutant["file"], mutant["change"][:50], verdict, flush=True)

    def tests_of(self, mutant: Row) -> list[str]:
        """Return the tests that reach a mutant: the fastest, and of each file in turn the fastest.

        The direct tests are fast, but few of them are the fastest of their file.
        """
        first, last = mutant["lines"]
        reaching = {
            test for line in range(first, last + 1) for test in self.reaching[mutant["file"], line]
        }
        fastest = sorted(reaching & self.seconds.keys(), key=self.seconds.__getitem__)
        files = defaultdict[str, list[str]](list)
        for test in fastest:
            files[test.split("::")[0]].append(test)
        turns = sorted(
            (turn, self.seconds[test], test)
            for tests in files.values()
            for turn, test in enumerate(tests)
        )
        chosen = dict[str, None]()
        for tests in (fastest, [test for *_, test in turns]):
            total = 0.0
            for test in tests:
                total += self.seconds[test]
                if chosen and total >= BUDGET_SECONDS / 2:
                    break
                chosen[test] = None
        return list(chosen)

    def passes(self, tests: Sequence[str]) -> bool:
        """Run tests until one fails, each named in a file before it begins."""
        name = (self.work / "current").write_text
        return all(is_passed for _, is_passed, _ in self.results(tests, name))

    def killer(self, mutant: Row) -> str:
        """Return the test that fails on a mutant, or does not end; empty if there is none."""
        file = self.root / mutant["file"]
        tests = self.tests_of(mutant)
        original = file.read_text()
        times = file.stat()
        before = _codes(compile(original, file, "exec"))
        after = _codes(compile(mutant["source"], file, "exec"))
        changed = {
            (name, old.co_firstlineno): new
            for name, codes in before.items()
            for old, new in zip(codes, after.get(name, ()), strict=False)
            if old != new
        }

        def work() -> bool:
            for function in self.functions[str(file)]:
                code = function.__code__
                key = (code.co_qualname, code.co_firstlineno)
                function.__code__ = changed.get(key, code)
            return self.passes(tests)

        (self.work / "current").write_text("")
        # Processes that the tests start, and later imports, read the file.
        file.write_text(mutant["source"])
        try:
            cpu = 30 + 5 * sum(self.seconds[test] for test in tests)
            return "" if not tests or self.fork(work, cpu) else (self.work / "current").read_text()
        finally:
            file.write_text(original)
            # The bytecode belongs to a file with this time.
            os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def _codes(code: CodeType) -> dict[str, list[CodeType]]:
    """Return the codes inside a code by their names, in the order of the source."""
    codes = defaultdict[str, list[CodeType]](list)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            codes[constant.co_qualname].append(constant)
            for name, inner in _codes(constant).items():
                codes[name] += inner
    return codes


# The score is computed in the checkout.


def score(rows: Sequence[Row], before: Row) -> Row:
    """Return the scores of the packages, their survivors, and the names of what was killed.

    Packages that were not drawn keep their scores, and survivors their reasons.
    """
    packages = dict(before["packages"])
    reasons = {
        row["id"]: {"reason": row["reason"]}
        for package in packages.values()
        for row in package["survivors"]
        if "reason" in row
    }
    for name in dict.fromkeys(row["package"] for row in rows):
        mine = [row for row in rows if row["package"] == name]
        killed = sorted(row["id"] for row in mine if row["killer"])
        packages[name] = {
            "score": round(len(killed) / len(mine), 3),
            "drawn": len(mine),
            "killed": len(killed),
            "not_reached": sum(not row["tests"] for row in mine),
            "killed_ids": " ".join(killed),
            "survivors": [
                {
                    "id": row["id"],
                    "place": f"{row['file']}:{row['lines'][1]} {row['function']}",
                    "change": row["change"],
                    "tests": row["tests"],
                    **reasons.get(row["id"], {}),
                }
                for row in mine
                if not row["killer"]
            ],
        }
    killed = sum(package["killed"] for package in packages.values())
    drawn = sum(package["drawn"] for package in packages.values())
    return {"score": round(killed / drawn, 3), "drawn": drawn, "packages": packages}


def losses(before: Row, now: Row) -> list[str]:
    """Compare two scores; return a sentence for every package that lost more than chance explains.

    A mutant of both draws has the same verdict unless code or tests changed, so only those that
    were replaced vary by chance: by 1.64 deviations of a binomial difference in 95 % of all draws.
    Two in a hundred are let pass, as the limit of processor time may decide on them.
    """
    sentences = []
    for package, new in now["packages"].items():
        old = before["packages"].get(package, new)
        drawn = {*old["killed_ids"].split(), *(row["id"] for row in old["survivors"])}
        fresh = {*new["killed_ids"].split(), *(row["id"] for row in new["survivors"])} - drawn
        p = old["score"]
        chance = max(0.02, 1.64 * (2 * len(fresh) * p * (1 - p)) ** 0.5 / new["drawn"])
        lost = [row for row in new["survivors"] if row["id"] in old["killed_ids"].split()]
        print(f"{package:<11} {new['score']:.3f}, was {p:.3f}, {len(fresh)} mutants are new")
        for row in lost:
            print(f"  was killed before: {row['place']}: {row['change']}")
        if new["score"] < p - chance:
            sentences.append(f"{package}: {new['score']:.3f} is below {p:.3f} - {chance:.3f}")
    return sentences


def main() -> int:
    """Run, or continue, and compare with the committed score: 1 if a package lost."""
    parser = argparse.ArgumentParser(description="Mutation testing of a sample.")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "mutants")
    parser.add_argument("packages", nargs="*", metavar="package", help=", ".join(PACKAGES))
    parser.add_argument("--tests", nargs="+", default=[], help="test files (default: all)")
    options = parser.parse_args()
    work = options.work.resolve()
    source = work / "source"
    tree = work / "tree"
    if not (work / "drawn.json").exists():
        (work / "map").mkdir(parents=True, exist_ok=True)
        (work / "results.jsonl").write_text("")
        names = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines()
        for name in names:
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, source / name)
        (work / "drawn.json").write_text(json.dumps(draw(source, options.packages or [*PACKAGES])))
    # An interrupted run may have left a mutant there.
    shutil.copytree(source, tree, dirs_exist_ok=True)
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tree), os.environ.get("PYTHONPATH", "")]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "MUTANTS_WORK": str(work),
    }
    # The tests of the mutants may not record goldens.
    is_refresh = bool(env.pop("REFRESH_GOLDEN", ""))
    plugins = ["-p", "tests.mutants", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command = [sys.executable, "-m", "pytest", *plugins, "-s", *options.tests]
    subprocess.run(command, cwd=tree, env=env, check=True)
    rows = [json.loads(line) for line in (work / "results.jsonl").read_text().splitlines()]
    before = json.loads(SCORE.read_text())
    now = score(rows, before)
    sentences = losses(before, now)
    print(*sentences, sep="\n")
    print(f"{now['score']:.3f} of {now['drawn']} mutants were killed")
    if is_refresh:
        SCORE.write_text(json.dumps(now, indent=1) + "\n")
    shutil.rmtree(work)
    return int(bool(sentences))


if __name__ == "__main__":
    sys.exit(main())

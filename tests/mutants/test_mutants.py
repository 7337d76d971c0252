"""Every mutant still applies to the tree, and its changed line is a statement that can be marked. Whether it is
caught, `make mutants` shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from jepsen.simulate import run_elsewhere
from tests.capabilities import require_capability
from tests.mutants.hunt import ROOT, Hunter, Mutant, Verdict, changed_line, describe, make_tree, read_mutants

MUTANTS = read_mutants()
MUTANTS_LEAST = 14


def test_there_are_enough_mutants_and_each_states_its_reason() -> None:
    assert len(MUTANTS) >= MUTANTS_LEAST
    assert all(mutant.why.endswith(".") for mutant in MUTANTS)


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_a_mutant_applies_and_differs_from_the_product(
    mutant: Mutant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_capability("git")
    monkeypatch.setattr("tests.mutants.hunt.PACKAGES", ())
    copy = tmp_path / mutant.path
    copy.parent.mkdir(parents=True)
    copy.write_text((ROOT / mutant.path).read_text(encoding="utf-8"), encoding="utf-8")
    make_tree(mutant, tmp_path)
    mutated = copy.read_text(encoding="utf-8")
    assert "import kraft_mutant_reached" in mutated
    compile(mutated, mutant.path, "exec")


def test_a_defect_of_the_raft_core_is_tried_on_the_quorum_simulation(tmp_path: Path) -> None:
    require_capability("git")
    (mutant,) = (each for each in MUTANTS if each.name == "vote-not-persisted")
    make_tree(None, tmp_path)
    verdict = Hunter([], tmp_path).hunt(mutant)
    assert verdict.caught
    assert verdict.finding.startswith("quorum, event ")


READERS = [each for each in MUTANTS if each.path.startswith("kraft/protocol/records/") and not each.test]
"""Those that name no test of their own, as defects of compression do."""


@pytest.mark.parametrize("mutant", READERS, ids=lambda mutant: mutant.name)
def test_a_defect_of_a_record_reader_is_caught_by_payloads_alone(mutant: Mutant, tmp_path: Path) -> None:
    require_capability("git")
    make_tree(None, tmp_path)
    verdict = Hunter([], tmp_path).hunt(mutant)
    assert verdict.caught
    assert verdict.finding.startswith("record payloads: ")


def test_a_defect_of_the_authorizer_is_caught_by_its_decisions_alone(tmp_path: Path) -> None:
    """Two of them; the others are like these."""
    require_capability("git")
    make_tree(None, tmp_path)
    hunter, names = Hunter([], tmp_path), ("access-denied-in-vain", "access-outlives-its-rules")
    for verdict in (hunter.hunt(each) for each in MUTANTS if each.name in names):
        assert verdict.caught
        assert verdict.finding.startswith("access: ")


@pytest.mark.parametrize(
    ("name", "finding"),
    [
        ("compaction-beyond-last-stable-offset", "cleaned log: "),
        ("index-lost-by-clean-close", "restarted log: "),
        ("aborted-only-while-producers-live", "restarted log: "),
        ("compaction-ignores-aborted", "restarted log: "),
        ("pending-offset-loaded-over-newer", "coordinator load: "),
    ],
)
def test_a_defect_of_a_component_is_caught_by_the_law_of_that_component(
    name: str, finding: str, tmp_path: Path
) -> None:
    require_capability("git")
    (mutant,) = (each for each in MUTANTS if each.name == name)
    make_tree(None, tmp_path)
    verdict = Hunter([], tmp_path).hunt(mutant)
    assert verdict.caught
    assert verdict.finding.startswith(finding)


def test_a_defect_that_no_simulation_reaches_is_caught_by_the_test_that_its_patch_names(tmp_path: Path) -> None:
    require_capability("git")
    (mutant,) = (each for each in MUTANTS if each.name == "scram-proof-unchecked")
    make_tree(None, tmp_path)
    verdict = Hunter([], tmp_path).hunt(mutant)
    assert verdict.caught
    assert verdict.finding.startswith(mutant.test)


@pytest.mark.parametrize("mutant", [each for each in MUTANTS if each.test], ids=lambda mutant: mutant.name)
def test_the_test_that_a_patch_names_exists(mutant: Mutant) -> None:
    path, _, name = mutant.test.partition("::")
    assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8")


def test_a_test_that_fails_without_the_defect_catches_nothing(tmp_path: Path) -> None:
    """Against a product whose proof is not checked, either."""
    require_capability("git")
    (mutant,) = (each for each in MUTANTS if each.name == "scram-proof-unchecked")
    make_tree(mutant, tmp_path)
    verdict = Hunter([], tmp_path).hunt(mutant)
    assert verdict.reached
    assert not verdict.caught


def test_a_changed_line_that_never_ran_is_an_error_of_the_workload() -> None:
    assert "error of the workload" in describe(Verdict(MUTANTS[0], reached=False, seeds=60, finding=""))
    assert "not caught with 60 seeds" in describe(Verdict(MUTANTS[0], reached=True, seeds=60, finding=""))


def test_a_patch_that_does_not_apply_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_capability("git")
    monkeypatch.setattr("tests.mutants.hunt.PACKAGES", ())
    with pytest.raises(Exception, match="returned non-zero exit status"):
        make_tree(MUTANTS[0], tmp_path)


@pytest.mark.parametrize(("after", "line"), [("a\nc\nd\n", 2), ("a\nd\n", 2), ("a\nb\nc\nd\n", 3)])
def test_the_changed_line_of_a_patch_is_found(after: str, line: int) -> None:
    assert changed_line("a\nb\nd\n", after) == line


def test_a_defect_of_the_http_package_is_executed(tmp_path: Path) -> None:
    make_tree(None, tmp_path)
    (tmp_path / "api/kraft_http/__init__.py").write_text("raise ZeroDivisionError('planted')\n")
    (outcome,) = run_elsewhere([1], tree=tmp_path)
    assert outcome["verdict"] == "violation"
    assert "planted" in outcome["violations"][0]


STOPS = """import sys
for seed in sys.argv[sys.argv.index("--these") + 1 :]:
    print('{"seed": %s, "verdict": "%s", "violations": ["red"]}' % (seed, "violation" if seed in RED else "ok"))
    if seed in RED:
        sys.exit(1)
"""


def test_a_run_that_stops_at_a_violation_does_not_try_the_next_seed(tmp_path: Path) -> None:
    (tmp_path / "stops.py").write_text("RED = ['2']\n" + STOPS)
    found = run_elsewhere([1, 2, 3], tree=tmp_path, stop=True, module="stops")
    assert [(each["seed"], each["verdict"]) for each in found] == [(1, "ok"), (2, "violation")]


def test_a_seed_that_fails_without_the_defect_does_not_catch_it_and_later_seeds_are_tried(
    tmp_path: Path,
) -> None:
    for tree, red in (("sound", "['2']"), ("mutant", "['2', '4']")):
        (tmp_path / tree).mkdir()
        (tmp_path / tree / "stops.py").write_text(f"RED = {red}\n{STOPS}")
    hunter = Hunter([], tmp_path / "sound")
    assert hunter._run(tmp_path / "mutant", "stops", range(1, 6), 5) == (4, "red")
    assert hunter._run(tmp_path / "sound", "stops", range(1, 6), 5) == (5, "")


def test_a_tree_whose_product_is_not_the_one_imported_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=f"outside {tmp_path}"):
        run_elsewhere([1], tree=tmp_path)

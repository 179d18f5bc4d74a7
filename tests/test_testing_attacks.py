"""The conformance kit passes honest attacks and catches each kind of cheat."""

from contextlib import suppress
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

from privaudit.attacks.base import Guesses, Knowledge
from privaudit.datasets.base import LabelledImages
from privaudit.testing import check_attack
from privaudit.transcript import Capability, Coalition, MemoryRecorder, Party

IMAGES = np.random.default_rng(0).random((3, 2, 1, 4, 4)).astype(np.float32)


@pytest.fixture
def case():
    """A view, knowledge, and truth of a run in which users send a number."""
    recorder = MemoryRecorder()
    recorder.declare(
        [*(Party(f"user-{i}", "user") for i in range(3)), Party("server", "server")],
        facts=[Capability.MODEL_ARCHITECTURE],
    )
    for i in range(3):
        for kind in ("number", "other"):
            recorder.send(
                kind=kind,
                sender=f"user-{i}",
                receiver="server",
                round=1,
                arrays={"values": np.array([float(i)])},
                meta={"tags": ["a", {"b": 1}]},
            )
        recorder.note_truth(f"user-{i}", images=IMAGES[i], labels=np.array([i, i]))
    recorder.publish("configuration", {"rounds": 1})
    view = recorder.transcript().view(Coalition.of("server", capabilities=Capability))
    auxiliary = LabelledImages(np.zeros((2, 1, 4, 4), dtype=np.float32), np.array([0, 1]))
    return view, Knowledge(auxiliary=auxiliary), recorder.truth()


class Honest:
    name: ClassVar[str] = "toy/echo"
    version: ClassVar[str] = "1"
    risk: ClassVar[str] = "inference"
    requires: ClassVar[frozenset] = frozenset({Capability.MODEL_ARCHITECTURE})
    reads: ClassVar[tuple] = ("number",)

    def messages(self, view):
        view.require(self.requires, attack=self.name)
        return [m for m in view.select("number") if m.sender not in view.coalition.members]

    def guess(self, view, values):
        ids = tuple(m.sender for m in self.messages(view))
        return Guesses(ids, tuple(values), np.zeros(len(ids)))

    def run(self, view, *, knowledge, rng):
        return self.guess(view, [m.arrays["values"] + rng.normal() for m in self.messages(view)])

    def baseline(self, view, *, knowledge, rng):
        return self.guess(view, [np.array([rng.normal()]) for _ in self.messages(view)])


def caught(attack, case, rule, **changes):
    view, knowledge, truth = case
    with pytest.raises(AssertionError, match=rf"^\[{rule}\]"):
        check_attack(attack, view, replace(knowledge, **changes), truth=truth)


def test_an_honest_attack_passes(case):
    view, knowledge, truth = case
    check_attack(Honest(), view, knowledge, truth=truth)
    check_attack(Honest(), view, knowledge)


def test_reading_the_truth_is_caught(case):
    truth = case[2]

    class ReadsTruth(Honest):
        def run(self, view, *, knowledge, rng):
            return self.guess(view, [truth.get(m.sender, "labels") for m in self.messages(view)])

    caught(ReadsTruth(), case, "no-truth")


def test_reading_the_truth_is_caught_even_where_the_refusal_is_swallowed(case):
    truth = case[2]

    class HidesIt(Honest):
        def run(self, view, *, knowledge, rng):
            with suppress(AssertionError):
                np.sum([len(a) for a in truth.targets])
            return self.guess(view, [np.zeros(1) for _ in self.messages(view)])

    caught(HidesIt(), case, "no-truth")


def test_truth_can_be_read_again_after_the_check(case):
    check_attack(Honest(), *case[:2], truth=case[2])
    assert case[2].get("user-1", "labels").tolist() == [1, 1]


def test_a_parameter_for_the_truth_is_caught(case):
    class TakesTruth(Honest):
        def run(self, view, *, knowledge, rng, truth=None):
            return super().run(view, knowledge=knowledge, rng=rng)

    caught(TakesTruth(), case, "no-truth")


def test_a_source_of_randomness_other_than_rng_is_caught(case):
    class Restless(Honest):
        def run(self, view, *, knowledge, rng):
            noise = np.random.default_rng().normal()
            return self.guess(view, [np.array([noise]) for _ in self.messages(view)])

    caught(Restless(), case, "same-seed")


def test_state_that_is_kept_between_calls_is_caught(case):
    class Remembers(Honest):
        calls = 0

        def baseline(self, view, *, knowledge, rng):
            self.calls += 1
            return self.guess(view, [np.array([self.calls]) for _ in self.messages(view)])

    caught(Remembers(), case, "same-seed")


def test_attacking_a_member_of_the_coalition_is_caught(case):
    class AttacksItself(Honest):
        def guess(self, view, values):
            return Guesses(("server/round-1",), (np.zeros(1),), np.zeros(1))

    caught(AttacksItself(), case, "targets")


def test_guessing_for_nobody_is_caught(case):
    class Silent(Honest):
        def guess(self, view, values):
            return Guesses((), (), np.zeros(0))

    caught(Silent(), case, "targets")


def test_a_baseline_for_other_targets_is_caught(case):
    class EasyBaseline(Honest):
        def baseline(self, view, *, knowledge, rng):
            view.require(self.requires, attack=self.name)
            return Guesses(("user-0",), (np.zeros(1),), np.zeros(1))

    caught(EasyBaseline(), case, "baseline")


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_scores_that_are_not_finite_are_caught(case, bad):
    class Unsure(Honest):
        def guess(self, view, values):
            guesses = super().guess(view, values)
            return replace(guesses, scores=guesses.scores + bad)

    caught(Unsure(), case, "finite-scores")


def test_changing_the_view_is_caught(case):
    class Vandal(Honest):
        def run(self, view, *, knowledge, rng):
            result = super().run(view, knowledge=knowledge, rng=np.random.default_rng(0))
            view.public["configuration"]["rounds"] = 2
            return result

    caught(Vandal(), case, "view-unchanged")


def test_changing_the_knowledge_is_caught(case):
    class Vandal(Honest):
        def baseline(self, view, *, knowledge, rng):
            knowledge.auxiliary.labels[0] = 7
            return super().baseline(view, knowledge=knowledge, rng=rng)

    caught(Vandal(), case, "view-unchanged")


def test_running_without_a_required_capability_is_caught(case):
    class Presumes(Honest):
        def messages(self, view):
            return [m for m in view.select("number") if m.sender not in view.coalition.members]

    caught(Presumes(), case, "requirements")


def test_reading_kinds_that_are_not_declared_is_caught(case):
    class ReadsMore(Honest):
        def run(self, view, *, knowledge, rng):
            more = len(view.select("other"))
            return self.guess(view, [np.array([more]) for _ in self.messages(view)])

    caught(ReadsMore(), case, "reads")


def test_auxiliary_data_that_hold_a_users_image_are_caught(case):
    stolen = LabelledImages(IMAGES[1, 1:], np.array([1]))
    caught(Honest(), case, "auxiliary", auxiliary=stolen)


@pytest.mark.parametrize(
    "declaration",
    [{"name": "Echo"}, {"version": ""}, {"risk": "harm"}, {"reads": ()}, {"requires": set()}],
)
def test_what_is_not_declared_properly_is_caught(case, declaration):
    caught(type("Declared", (Honest,), declaration)(), case, "declared")

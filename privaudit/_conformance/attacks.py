"""Rules that every attack keeps."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest import mock

import numpy as np

from privaudit._conformance.digests import (
    digest_guesses,
    digest_knowledge,
    digest_view,
    require,
)
from privaudit.attacks.base import Attack, Guesses, Knowledge
from privaudit.errors import UnmetRequirementsError
from privaudit.transcript import Truth, View

__all__ = ["check_attack"]

RISKS = ("reconstruction", "inference", "linkability", "singling-out")
SEED = 20_240_229


def check_attack(
    attack: Attack, view: View, knowledge: Knowledge, *, truth: Truth | None = None
) -> None:
    """Check that an attack keeps the rules, on a view that it can attack.

    The rules, by the names that messages start with:

    ``declared``
        ``name`` is ``family/name``; version, risk, ``requires`` and ``reads`` are stated.
    ``no-truth``
        ``run`` and ``baseline`` take a view, ``knowledge`` and ``rng``, nothing else; no
        :class:`~privaudit.transcript.Truth` in the process is read while they run, and results
        are the same where every truth refuses to be read.
    ``requirements``
        Without any one of the required capabilities ``run`` raises UnmetRequirementsError.
    ``same-seed``
        The same generator state gives the same guesses, to the last bit.
    ``targets``
        There is a target; none is a member of the coalition.
    ``baseline``
        It guesses for the same targets.
    ``finite-scores``
        Scores are finite.
    ``view-unchanged``
        View and knowledge are as before.
    ``reads``
        Guesses are the same if the view holds only messages of the kinds in ``reads``: the control
        experiment deranges those and would not disturb what else an attack reads.
    ``auxiliary``
        With ``truth``: no user's image is among the auxiliary images.

    Parameters
    ----------
    attack : Attack
    view : View
        With all capabilities that the attack requires.
    knowledge : Knowledge
    truth : Truth, optional
        That of the same run.

    Raises
    ------
    AssertionError
        If a rule is broken; the message names it.
    """
    _check_declared(attack)
    for method in (attack.run, attack.baseline):
        _check_parameters(method)
    before = digest_view(view), digest_knowledge(knowledge)
    guesses = _run(attack.run, view, knowledge)
    baseline = _run(attack.baseline, view, knowledge)
    _check_guesses(guesses, view, "run")
    _check_guesses(baseline, view, "baseline")
    require(
        set(guesses.target_ids) == set(baseline.target_ids),
        "baseline",
        f"attack and baseline differ in their targets: {guesses.target_ids} and "
        f"{baseline.target_ids}",
    )
    for name, method, first in (
        ("run", attack.run, guesses),
        ("baseline", attack.baseline, baseline),
    ):
        _check_repeated(name, method, view, knowledge, first)
    _check_reads(attack, view, knowledge, guesses)
    require(
        (digest_view(view), digest_knowledge(knowledge)) == before,
        "view-unchanged",
        f"'{attack.name}' changed the view or the knowledge that it was given",
    )
    _check_requirements(attack, view, knowledge)
    if truth is not None:
        _check_auxiliary(knowledge, truth)


def _run(method: Callable[..., Guesses], view: View, knowledge: Knowledge) -> Guesses:
    return method(view, knowledge=knowledge, rng=np.random.default_rng(SEED))


def _check_declared(attack: Attack) -> None:
    require(
        re.fullmatch(r"[a-z0-9-]+/[a-z0-9-]+", attack.name) is not None,
        "declared",
        f"an attack's name is 'family/name' in lower case, got {attack.name!r}",
    )
    require(bool(attack.version), "declared", f"'{attack.name}' states no version")
    require(
        attack.risk in RISKS,
        "declared",
        f"'{attack.name}' has risk {attack.risk!r}; allowed are {', '.join(RISKS)}",
    )
    require(
        isinstance(attack.requires, frozenset) and isinstance(attack.reads, tuple),
        "declared",
        f"'{attack.name}': requires is a frozenset of capabilities and reads a tuple of kinds",
    )
    require(bool(attack.reads), "declared", f"'{attack.name}' does not state what it reads")


def _check_parameters(method: Callable[..., Guesses]) -> None:
    names = tuple(inspect.signature(method).parameters)
    require(
        names == ("view", "knowledge", "rng"),
        "no-truth",
        f"{method.__qualname__} takes {names}; it must take (view, *, knowledge, rng) "
        "and nothing else",
    )


def _check_guesses(guesses: Guesses, view: View, what: str) -> None:
    require(bool(guesses.target_ids), "targets", f"{what} guesses for no target")
    inside = [t for t in guesses.target_ids if t.split("/")[0] in view.coalition.members]
    require(not inside, "targets", f"{what} attacks members of its own coalition: {inside}")
    require(
        bool(np.isfinite(guesses.scores).all()),
        "finite-scores",
        f"scores of {what} are not finite: {guesses.scores}",
    )


def _check_repeated(
    name: str, method: Callable[..., Guesses], view: View, knowledge: Knowledge, first: Guesses
) -> None:
    require(
        digest_guesses(_run(method, view, knowledge)) == digest_guesses(first),
        "same-seed",
        f"{name} gave other guesses with a generator in the same state; draw from rng only",
    )
    reads: list[str] = []
    with _sealed_truth(reads):
        again = digest_guesses(_run(method, view, knowledge))
    require(
        not reads and again == digest_guesses(first),
        "no-truth",
        f"{name} read the truth ({', '.join(sorted(set(reads))) or 'results differ without it'})",
    )


@contextmanager
def _sealed_truth(reads: list[str]) -> Iterator[None]:
    """Make every Truth refuse to be read, and note what was asked for."""

    def refuse(self: Truth, name: str) -> object:
        reads.append(f"Truth.{name}")
        raise AssertionError(f"[no-truth] Truth.{name} was read")

    with mock.patch.object(Truth, "__getattribute__", refuse, create=True):
        yield


def _check_reads(attack: Attack, view: View, knowledge: Knowledge, guesses: Guesses) -> None:
    declared = replace(view, messages=tuple(m for m in view.messages if m.kind in attack.reads))
    require(
        digest_guesses(_run(attack.run, declared, knowledge)) == digest_guesses(guesses),
        "reads",
        f"'{attack.name}' reads messages of other kinds than it declares in reads: {attack.reads}",
    )


def _check_requirements(attack: Attack, view: View, knowledge: Knowledge) -> None:
    for capability in sorted(attack.requires):
        without = replace(view, capabilities=view.capabilities - {capability})
        try:
            _run(attack.run, without, knowledge)
        except UnmetRequirementsError:
            continue
        require(
            False,
            "requirements",
            f"'{attack.name}' ran without {capability}, which it requires; call "
            "view.require(self.requires, attack=self.name) first",
        )


def _check_auxiliary(knowledge: Knowledge, truth: Truth) -> None:
    if knowledge.auxiliary is None:
        return
    known = {image.tobytes() for image in knowledge.auxiliary.images}
    for target, arrays in truth.targets.items():
        images = arrays.get("images")
        if images is None:
            continue
        shared = sum(np.asarray(i, dtype=np.float32).tobytes() in known for i in images)
        require(
            shared == 0,
            "auxiliary",
            f"{shared} of the images of '{target}' are among the auxiliary images",
        )

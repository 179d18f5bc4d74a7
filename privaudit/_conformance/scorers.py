"""Rules that every scorer keeps."""

from __future__ import annotations

import math
import re
from dataclasses import replace

from privaudit._conformance.digests import digest_guesses, digest_truth, require
from privaudit.attacks.base import Attack, Guesses
from privaudit.scoring.base import ScoredRun, Scorer
from privaudit.scoring.estimate import Scores

__all__ = ["check_scorer"]


def check_scorer(scorer: Scorer, attack: Attack, run: ScoredRun, guesses: Guesses) -> None:
    """Check that a scorer keeps the rules, on guesses of an attack that it scores.

    The rules, by the names that messages start with:

    ``declared``
        It has a name, and ``attacks`` names attacks or families, that of ``attack`` among them.
    ``metrics``
        There is a metric, each with a name of its own, a function and a unit.
    ``scores``
        A metric gives Scores for targets that were guessed, of a known statistic, and a
        proportion is made of zeros and ones; ``nan`` marks a failed target.
    ``same-answer``
        The same guesses give the same scores.
    ``by-id``
        Guesses and truth are joined by id: another order of the targets changes nothing.
    ``inputs-unchanged``
        Guesses and truth are as before.
    ``unknown-target``
        A guess about a target that the truth does not know is an error or a ``nan``, never
        left out or scored.

    Parameters
    ----------
    scorer : Scorer
    attack : Attack
        One that the scorer is for.
    run : ScoredRun
        With its truth.
    guesses : Guesses
        Of the attack on this run, for two targets or more.

    Raises
    ------
    AssertionError
        If a rule is broken; the message names it.
    """
    require(bool(scorer.name), "declared", "a scorer has a name")
    family = f"{attack.name.partition('/')[0]}/*"
    for pattern in scorer.attacks:
        require(
            re.fullmatch(r"[a-z0-9-]+/([a-z0-9-]+|\*)", pattern) is not None,
            "declared",
            f"attacks are named 'family/name' or 'family/*', got {pattern!r}",
        )
    require(
        attack.name in scorer.attacks or family in scorer.attacks,
        "declared",
        f"'{scorer.name}' scores {scorer.attacks}, not '{attack.name}'",
    )
    require(len(guesses.target_ids) > 1, "by-id", "the kit needs guesses for two targets or more")
    truth = run.truth
    require(truth is not None, "metrics", "the kit needs a run with its truth")
    assert truth is not None
    metrics = scorer.metrics(attack, run)
    names = [name for name, _, _ in metrics]
    require(bool(names), "metrics", f"'{scorer.name}' has no metric for '{attack.name}'")
    require(len(set(names)) == len(names), "metrics", f"two metrics are named alike: {names}")
    before = digest_guesses(guesses), digest_truth(truth)
    turned = _turned(guesses)
    for name, function, unit in metrics:
        require(isinstance(unit, str), "metrics", f"the unit of '{name}' is {unit!r}, not a text")
        scores = function(guesses, truth)
        _check_scores(name, scores, guesses)
        require(
            _told(function(guesses, truth)) == _told(scores),
            "same-answer",
            f"'{name}' scored the same guesses differently",
        )
        require(
            _told(function(turned, truth)) == _told(scores),
            "by-id",
            f"'{name}' depends on the order of the targets; join guesses to the truth by id",
        )
        stranger = "no-such-target"
        try:
            odd = function(_renamed(guesses, stranger), truth)
        except Exception:
            continue
        require(
            stranger in odd.per_target and math.isnan(odd.per_target[stranger]),
            "unknown-target",
            f"'{name}' did not refuse a guess about '{stranger}', which the truth does not know",
        )
    require(
        (digest_guesses(guesses), digest_truth(truth)) == before,
        "inputs-unchanged",
        f"'{scorer.name}' changed the guesses or the truth",
    )


def _check_scores(name: str, scores: Scores, guesses: Guesses) -> None:
    require(isinstance(scores, Scores), "scores", f"'{name}' returns {type(scores).__name__}")
    strange = set(scores.per_target) - set(guesses.target_ids)
    require(not strange, "scores", f"'{name}' scores targets that were not guessed: {strange}")
    require(bool(scores.per_target), "scores", f"'{name}' scores no target")
    require(
        scores.statistic in ("proportion", "mean", "median"),
        "scores",
        f"the statistic of '{name}' is {scores.statistic!r}",
    )
    if scores.statistic == "proportion":
        values = {v for v in scores.per_target.values() if not math.isnan(v)}
        require(
            values <= {0.0, 1.0},
            "scores",
            f"'{name}' is a proportion, which is made of zeros and ones, and has {values}",
        )


def _told(scores: Scores) -> str:
    # As text, because a nan equals nothing.
    return repr((scores.metric, scores.statistic, sorted(scores.per_target.items())))


def _turned(guesses: Guesses) -> Guesses:
    return replace(
        guesses,
        target_ids=guesses.target_ids[::-1],
        values=guesses.values[::-1],
        scores=guesses.scores[::-1].copy(),
    )


def _renamed(guesses: Guesses, name: str) -> Guesses:
    return replace(guesses, target_ids=(name, *guesses.target_ids[1:]))

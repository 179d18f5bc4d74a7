"""Joining guesses to truth by id, and stating figures with their uncertainty."""

from privaudit.scoring.estimate import Estimate, Scores, Verdict, compare, estimate, verdict

__all__ = ["Estimate", "Scores", "Verdict", "compare", "estimate", "verdict"]

"""The rows of a budget: which quantities there are, and what each row says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

__all__ = ["BudgetRow", "Role"]

COORDINATE = "one coordinate, shuffled (Theorem 1 with a rigorous bound)"
THEOREM2 = "whole less important subvector: paper's Theorem 2"
LOCAL = "whole subvector: local guarantee (Theorem A)"
BASIC = "whole subvector: shuffled, basic"
REFINED = "whole subvector: shuffled, refined"
FLOOR = "spread-input floor"
USER = "all that one user releases"
MEDIAN = "median of the users' norms"
RELEASES = "noised releases that hide among nobody: least bound"
PURE = "noised releases: sum of the epsilons"
RENYI = "noised releases: Renyi composition"
LOSS = "noised releases: privacy loss distribution"

Role = Literal["bracket", "local", "paper", "coordinate", "user", "other"]
ROLES: Mapping[str, Role] = {
    COORDINATE: "coordinate",
    THEOREM2: "paper",
    LOCAL: "local",
    REFINED: "bracket",
    USER: "user",
}


@dataclass(frozen=True, slots=True)
class BudgetRow:
    """One quantity of one cluster size; the fields are those of a report's budget row.

    ``rounds`` is 1 for a row of a single round; otherwise the row is the total of the worst user,
    ``cluster_size`` is the smallest cluster it was in, and the note tells its history.
    """

    cluster_size: int
    honest_users: int
    clusters: int
    rounds: int
    epsilon0: float
    delta: float
    dimension: int
    quantity: str
    lower: float | None
    upper: float | None
    theorem: str
    status: str
    domain_ok: bool
    note: str
    role: Role = "other"

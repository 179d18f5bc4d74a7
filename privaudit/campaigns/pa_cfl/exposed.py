"""What each coalition learns of users' updates by pooling messages, verified against the truth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privaudit.attacks.base import Knowledge
from privaudit.attacks.collusion import UpdateRecovery, coalitions
from privaudit.campaigns.runs import RecordedRun
from privaudit.errors import PrivauditError
from privaudit.reports.model import ExposureRow, NotRun
from privaudit.scoring.exposure import ExposureMeasure, exposure, summarise

__all__ = ["Exposed", "exposed"]


@dataclass(frozen=True, slots=True)
class Exposed:
    """A row of the exposure table, with what verdicts need besides.

    Attributes
    ----------
    row : ExposureRow
    members : tuple of str
        A representative coalition.
    attributed_fraction : float
        Largest fraction of a user's coordinates whose noised value is attributed to it.
    derived : int
        Targets whose important values were computed from an aggregate.
    derived_error : float
        Median relative error of those.
    """

    row: ExposureRow
    members: tuple[str, ...]
    attributed_fraction: float
    derived: int
    derived_error: float


def exposed(run: RecordedRun, *, seed: int) -> tuple[list[Exposed], list[NotRun]]:
    """Let every class of coalitions pool what it saw in the first round, smallest first."""
    attack = UpdateRecovery(round=1)
    found: list[Exposed] = []
    not_run: list[NotRun] = []
    if run.truth is None:
        reason = "the truth was not handed over with the recording, so nothing can be verified"
        return [], [
            NotRun(attack=attack.name, coalition_label="all", status="not tested", reason=reason)
        ]
    for group in coalitions(run.transcript):
        measures: list[ExposureMeasure] = []
        for coalition in group.coalitions:
            try:
                guesses = attack.run(
                    run.transcript.view(coalition),
                    knowledge=Knowledge(),
                    rng=np.random.default_rng([seed, 5]),
                )
                measures.extend(exposure(guesses, run.truth))
            except (PrivauditError, KeyError) as error:
                not_run.append(
                    NotRun(
                        attack=attack.name,
                        coalition_label=group.label,
                        status="failed",
                        reason=str(error),
                    )
                )
        if not measures:
            continue
        summary = summarise(measures, label=group.label, size=group.size)
        derived = [m.derived_error for m in measures if m.derived_fraction > 0]
        found.append(
            Exposed(
                row=ExposureRow(
                    **{name: getattr(summary, name) for name in ExposureRow.model_fields}
                ),
                members=tuple(sorted(group.coalitions[0].members)),
                attributed_fraction=max(m.attributed_fraction for m in measures),
                derived=len(derived),
                derived_error=float(np.median(derived)) if derived else float("nan"),
            )
        )
    return found, not_run

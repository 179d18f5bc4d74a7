"""Running a campaign: what is missing is measured, and every result stored as it comes."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path

from privaudit.campaigns.auditing import Steps
from privaudit.campaigns.grid.definition import Campaign
from privaudit.campaigns.grid.engines import Engine
from privaudit.campaigns.grid.store import Store
from privaudit.reports import replace_file

__all__ = ["Summary", "run_campaign"]

#: The resolved configuration, beside the results.
CONFIGURATION = "campaign.json"


@dataclass(frozen=True, slots=True)
class Summary:
    """How a campaign stands.

    Attributes
    ----------
    cells, measured, not_applicable, failed, pending : int
    computed : int
        Cells of this call; the others were there.
    seconds : float
        Wall-clock time of this call.
    """

    cells: int
    measured: int
    not_applicable: int
    failed: int
    pending: int
    computed: int
    seconds: float


def run_campaign(
    campaign: Campaign,
    out: Path,
    *,
    engine: Engine,
    data_root: Path | None = None,
    retry_failed: bool = False,
    steps: Steps,
) -> Summary:
    """Measure every cell that ``out`` does not hold; the same call resumes after any interruption.

    Parameters
    ----------
    retry_failed : bool
        Measure cells again that failed; cells that were measured never are.

    Raises
    ------
    ConfigurationError
        If the campaign has a wrong value, or results cannot be stored.
    OutputExistsError
        If the folder holds another campaign.
    """
    started = time.perf_counter()
    cells = campaign.cells()
    out.mkdir(parents=True, exist_ok=True)
    configuration = campaign.model_dump(mode="json")
    with Store(out) as store:
        store.plan(configuration, cells)
        replace_file(
            out / CONFIGURATION, json.dumps(configuration, indent=2, sort_keys=True).encode()
        )
        rows = store.rows()
        wanted = {"pending", "failed"} if retry_failed else {"pending"}
        missing = [(row.key, row.specification) for row in rows if row.status in wanted]
        done = len(rows) - len(missing)
        for key, result in engine.run(missing, runs=out / "runs", data_root=data_root):
            store.finish(key, result)
            done += 1
            spec = next(s for k, s in missing if k == key)
            who = spec.coalition or spec.threat_model
            told = f"{spec.run['protocol']}: {spec.attack} by {who}: {result['status']}"
            if result["status"] == "failed":
                told += f" ({result['reason']})"
            steps("cells", done, len(rows), told)
        states = [row.status for row in store.rows()]
    return Summary(
        cells=len(states),
        measured=states.count("measured"),
        not_applicable=states.count("not-applicable"),
        failed=states.count("failed"),
        pending=states.count("pending"),
        computed=len(missing),
        seconds=time.perf_counter() - started,
    )

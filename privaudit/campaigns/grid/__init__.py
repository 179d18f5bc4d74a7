"""Campaigns: grids of cells over protocols, data, parameters, coalitions, attacks and seeds."""

from privaudit.campaigns.grid.definition import AttackPlan, Campaign, read_campaign
from privaudit.campaigns.grid.execution import Summary, run_campaign
from privaudit.campaigns.grid.specification import CellSpec, execute
from privaudit.campaigns.grid.store import Row, Store

__all__ = [
    "AttackPlan",
    "Campaign",
    "CellSpec",
    "Row",
    "Store",
    "Summary",
    "execute",
    "read_campaign",
    "run_campaign",
]

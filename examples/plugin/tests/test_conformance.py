"""The plug-in keeps the rules that privaudit's own attacks keep."""

from __future__ import annotations

from privaudit_bias_label import BiasLabel

import privaudit
from privaudit.campaigns.runs import knowledge_of
from privaudit.testing import check_attack
from privaudit.transcript import Capability, Coalition


def test_it_conforms() -> None:
    """The kit raises an AssertionError that names the rule, and the data that broke it."""
    run = privaudit.simulate(
        "fedavg",
        parameters={"rounds": 1, "model": "mlp"},
        federation={"users": 8, "partition": "dirichlet", "alpha": 0.1, "records_per_user": 20},
    )
    view = run.transcript.view(Coalition.of("server", capabilities=frozenset(Capability)))
    check_attack(BiasLabel(), view, knowledge_of(run), truth=run.truth)

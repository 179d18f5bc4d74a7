"""Conformance kits for plug-ins of every kind, for the tests of those who write them.

Each check raises AssertionError with a message that starts with the name of the broken rule in
brackets, for example ``[same-seed]``. They find mistakes and carelessness; they are no proof
against an author who means to cheat.

>>> from privaudit.testing import check_attack, check_protocol  # doctest: +SKIP
>>> def test_my_attack_conforms():  # doctest: +SKIP
...     check_attack(MyAttack(), view, knowledge, truth=truth)
"""

from __future__ import annotations

from privaudit._conformance.attacks import check_attack
from privaudit._conformance.engines import check_engine
from privaudit._conformance.protocols import check_protocol
from privaudit._conformance.readers import check_reader
from privaudit._conformance.reporters import check_reporter
from privaudit._conformance.scorers import check_scorer

__all__ = [
    "check_attack",
    "check_engine",
    "check_protocol",
    "check_reader",
    "check_reporter",
    "check_scorer",
]

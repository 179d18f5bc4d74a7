"""Conformance kits for attacks and protocols, for the tests of those who write them.

Each check raises AssertionError with a message that starts with the name of the broken rule in
brackets, for example ``[same-seed]``. They find mistakes and carelessness; they are no proof
against an author who means to cheat.

>>> from privaudit.testing import check_attack, check_protocol  # doctest: +SKIP
>>> def test_my_attack_conforms():  # doctest: +SKIP
...     check_attack(MyAttack(), view, knowledge, truth=truth)
"""

from __future__ import annotations

from privaudit._conformance.attacks import check_attack
from privaudit._conformance.protocols import check_protocol

__all__ = ["check_attack", "check_protocol"]

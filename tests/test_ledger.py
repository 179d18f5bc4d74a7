"""The ledger's events as data: what is wrong in them is refused when they are read."""

from __future__ import annotations

from typing import Any

import pytest

from privaudit.errors import ConfigurationError
from privaudit.ledger import (
    LaplaceVector,
    PrivacyEvent,
    UnprotectedRelease,
    event_from_json,
    event_to_json,
)


@pytest.mark.parametrize(
    "mechanism",
    [
        LaplaceVector(1.0, 12, 2.5, shuffle="per-coordinate", clip_source="median-of-users"),
        UnprotectedRelease("the whole update", 12),
    ],
)
def test_an_event_comes_back_from_json_as_it_was(mechanism: Any) -> None:
    event = PrivacyEvent(3, mechanism, ("user-1", "user-2"), ("server",), "one user's records")
    assert event_from_json(event_to_json(event)) == event


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("round",), "three"),
        (("mechanism", "name"), "laplace"),
        (("mechanism", "shuffle"), "per-cordinate"),
        (("mechanism", "clipping"), "l2"),
        (("mechanism", "epsilon0"), 0.0),
        (("mechanism", "dimension"), 0),
        (("mechanism", "clip_norm"), -1.0),
        (("mechanism", "unknown"), 1),
    ],
)
def test_an_event_with_a_wrong_value_is_a_configuration_error(
    path: tuple[str, ...], value: Any
) -> None:
    event = PrivacyEvent(1, LaplaceVector(1.0, 12, 2.5), ("user-1",), ("server",), "one user")
    written = event_to_json(event)
    place = written
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(ConfigurationError):
        event_from_json(written)

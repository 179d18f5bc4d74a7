"""Recordings of PQ-MDS written by a stranger: each a typed error that names the message."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from index_runs import digits_run

from privaudit.attacks.base import Attack
from privaudit.attacks.indices import ClusterAttribute, CodeRecovery
from privaudit.errors import InvalidDataError, PrivauditError
from privaudit.transcript import View

NAN = np.full((300, 4), np.nan, np.float32)


def run_on(view: View, attack: Attack) -> Any:
    given = digits_run(4, 8, rows=300, total=600).grant("hbc_party", known=40)
    return attack.run(view, knowledge=given.knowledge, rng=np.random.default_rng(0))


def with_array(encoding: str, kind: str, name: str, array: Any, *, preset: str) -> View:
    view = digits_run(4, 8, rows=300, total=600, encoding=encoding).view(preset)
    first = next(m for m in view.messages if m.kind == kind)
    arrays = {key: value for key, value in first.arrays.items() if key != name}
    if array is not None:
        arrays[name] = array
    changed = replace(first, arrays=MappingProxyType(arrays))
    return replace(view, messages=tuple(changed if m is first else m for m in view.messages))


@pytest.mark.parametrize(
    ("encoding", "name", "array"),
    [
        ("dense", "indices", None),
        ("dense", "indices", NAN),
        ("dense", "indices", np.full((300, 4), 1e300)),
        ("dense", "indices", np.zeros(1200)),
        ("dense", "indices", np.array(3.0)),
        ("dense", "indices", np.zeros((0, 4))),
        ("dense", "indices", np.zeros((300, 0))),
        ("dense", "indices", np.full((300, 4), "x")),
        ("dense", "indices", np.zeros((300, 4), complex)),
        ("table", "codes", np.zeros((300, 4))),
        ("table", "codes", np.full((300, 4), -1)),
        ("table", "codes", np.full((300, 4), 8)),
        ("table", "codes", np.zeros((300, 4), bool)),
        ("table", "table", None),
        ("table", "table", np.full((4, 8, 1), np.inf)),
        ("table", "table", np.zeros((4, 8))),
    ],
)
def test_an_upload_that_is_none_is_named(encoding: str, name: str, array: Any) -> None:
    view = with_array(encoding, "indices", name, array, preset="hbc_server")
    with pytest.raises(InvalidDataError, match=r"message \d+ \('indices' from 'party-1'\)"):
        run_on(view, CodeRecovery())


@pytest.mark.parametrize(
    "labels", [None, np.full(300, 0.5), np.full(300, "x"), np.zeros(3, int), np.zeros((300, 1))]
)
def test_labels_that_are_none_are_refused(labels: Any) -> None:
    view = with_array("dense", "labels", "labels", labels, preset="hbc_party")
    with pytest.raises(InvalidDataError, match="label"):
        run_on(view, ClusterAttribute())


@pytest.mark.parametrize(
    "ids", [None, np.zeros(300, int), np.full(300, np.nan), np.full(300, "a"), np.arange(3)]
)
def test_row_ids_that_are_none_are_refused(ids: Any) -> None:
    view = digits_run(4, 8, rows=300, total=600).view("hbc_server")
    public = {k: v for k, v in view.public_arrays.items() if k != "rows"}
    if ids is not None:
        public["rows"] = ids
    with pytest.raises(InvalidDataError, match="row ids"):
        run_on(replace(view, public_arrays=MappingProxyType(public)), CodeRecovery())


@pytest.mark.parametrize("ids", [np.full(300, np.nan), np.full(300, "a"), np.arange(3)])
def test_row_ids_of_labels_that_are_none_are_refused(ids: Any) -> None:
    view = digits_run(4, 8, rows=300, total=600).view("hbc_party")
    public = MappingProxyType({**view.public_arrays, "rows": ids})
    with pytest.raises(InvalidDataError, match="row ids"):
        run_on(replace(view, public_arrays=public), ClusterAttribute())


@pytest.mark.parametrize("parties", [5, [[1], {}], ["party-1", "party-1"], []])
def test_parties_that_are_none_are_refused(parties: Any) -> None:
    view = digits_run(4, 8, rows=300, total=600).view("hbc_server")
    public = MappingProxyType({**view.public, "parties": parties})
    with pytest.raises(PrivauditError, match="number of subspaces of party-"):
        run_on(replace(view, public=public), CodeRecovery())

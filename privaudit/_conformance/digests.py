"""Digests of all that a view, a transcript or guesses hold, so that any change shows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass

import numpy as np

from privaudit.attacks.base import Guesses, Knowledge
from privaudit.transcript import Array, Message, Transcript, Truth, View

__all__ = [
    "digest_guesses",
    "digest_knowledge",
    "digest_transcript",
    "digest_truth",
    "digest_view",
    "require",
]


def require(holds: bool, rule: str, why: str) -> None:
    """Raise AssertionError, naming the rule, unless it holds."""
    if not holds:
        raise AssertionError(f"[{rule}] {why}")


class _Digest:
    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def text(self, *values: object) -> None:
        for value in values:
            self._hash.update(repr(value).encode() + b"\0")

    def json(self, value: object) -> None:
        self.text(json.dumps(value, sort_keys=True, default=_plain))

    def array(self, array: Array) -> None:
        self.text(array.dtype.descr, array.shape)
        self._hash.update(np.ascontiguousarray(array).tobytes())

    def arrays(self, arrays: Mapping[str, Array]) -> None:
        for name in sorted(arrays):
            self.text(name)
            self.array(np.asarray(arrays[name]))

    def messages(self, messages: Iterable[Message]) -> None:
        for m in messages:
            self.text(m.seq, m.round, m.kind, m.sender, m.receiver)
            self.json(m.meta)
            self.arrays(m.arrays)

    def groups(self, groups: Mapping[str, Mapping[str, Array]]) -> None:
        for name in sorted(groups):
            self.text(name)
            self.arrays(groups[name])

    def hex(self) -> str:
        return self._hash.hexdigest()


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple):
        return list(value)
    raise TypeError(f"{type(value).__name__} is no JSON value")


def digest_view(view: View) -> str:
    """Digest everything that a view holds."""
    digest = _Digest()
    digest.text(sorted(view.coalition.members), sorted(view.capabilities), view.parties)
    digest.messages(view.messages)
    digest.groups(view.secrets)
    digest.json(view.public)
    digest.arrays(view.public_arrays)
    return digest.hex()


def digest_transcript(transcript: Transcript) -> str:
    """Digest everything that a transcript holds."""
    digest = _Digest()
    digest.text(transcript.parties, sorted(transcript.facts))
    digest.messages(transcript.messages)
    digest.groups(transcript.secrets)
    digest.json(transcript.public)
    digest.arrays(transcript.public_arrays)
    return digest.hex()


def digest_truth(truth: Truth) -> str:
    """Digest everything that a truth holds."""
    digest = _Digest()
    digest.groups(truth.targets)
    return digest.hex()


def digest_knowledge(knowledge: Knowledge) -> str:
    """Digest everything that is declared as known."""
    digest = _Digest()
    digest.text(knowledge.model)
    if knowledge.parameters is not None:
        digest.array(knowledge.parameters)
    if knowledge.auxiliary is not None:
        digest.array(knowledge.auxiliary.images)
        digest.array(knowledge.auxiliary.labels)
    if knowledge.vertical is not None:
        _digest_dataclass(digest, knowledge.vertical)
    if knowledge.candidates is not None:
        _digest_dataclass(digest, knowledge.candidates)
    return digest.hex()


def _digest_dataclass(digest: _Digest, value: object) -> None:
    """Digest all that a dataclass of arrays, texts, mappings and dataclasses holds."""
    if isinstance(value, np.ndarray):
        digest.array(value)
    elif isinstance(value, Mapping):
        for name in sorted(value):
            digest.text(name)
            _digest_dataclass(digest, value[name])
    elif isinstance(value, tuple):
        for item in value:
            _digest_dataclass(digest, item)
    elif is_dataclass(value):
        for part in fields(value):
            digest.text(part.name)
            _digest_dataclass(digest, getattr(value, part.name))
    else:
        digest.text(value)


def digest_guesses(guesses: Guesses) -> str:
    """Digest targets, values, scores and diagnostics, to the last bit."""
    digest = _Digest()
    digest.text(guesses.target_ids, sorted(guesses.diagnostics.items()))
    for value in guesses.values:
        digest.array(np.asarray(value))
    digest.array(guesses.scores)
    return digest.hex()

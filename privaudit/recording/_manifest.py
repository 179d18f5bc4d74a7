"""The manifest of a bundle, and that of a truth folder."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

from privaudit import __version__
from privaudit.errors import did_you_mean
from privaudit.recording._blobs import BlobRef, check_digest, parse_single, single_json
from privaudit.recording._json import canonical, check_fields, check_text, decode, is_count
from privaudit.recording._problems import Limits, Refusal
from privaudit.transcript import JSON, Capability, Party

__all__ = ["FORMAT", "TRUTH_FORMAT", "ZEROS", "Manifest", "TruthManifest", "format_of"]

FORMAT = "privaudit-view/1"
TRUTH_FORMAT = "privaudit-truth/1"

#: Stands for a digest that is not there: ``prev`` of the first event, ``digest`` while hashing.
ZEROS = "0" * 64

#: What a manifest may leave out, and what is then taken.
_OPTIONAL: Mapping[str, Any] = {
    "observer": "all",
    "facts": [],
    "public": {},
    "public_arrays": {},
    "settings": {},
    "reason": None,
    "n_events": None,
    "head_hash": None,
    "secrets": None,
    "outcome": None,
    "privaudit": None,
}

_EMPTY: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False)
class Manifest:
    """What a bundle says of itself.

    Attributes
    ----------
    protocol : str
        Name of the protocol that was recorded.
    observer : str
        Whose messages were recorded: ``"all"``, or the party or role at which the recorder stood.
    parties : tuple of Party
    facts : frozenset of Capability
        Evidenced capabilities that hold of the run.
    public, settings, outcome : mapping of str to JSON
        What everybody knows; how the run was configured; how it ended (None while incomplete).
    public_arrays : mapping of str to BlobRef
    complete : bool
        Whether the recorder came to its end.
    reason : str or None
        Why a bundle is not complete; None if it is.
    n_events : int or None
        Number of messages; None while incomplete.
    head_hash, secrets : str or None
        SHA-256 of the last line of ``events.jsonl`` (64 zeros if there is none), and of the whole
        of ``secrets.jsonl``; None while incomplete.
    digest : str or None
        SHA-256 of the manifest's own bytes with this digest replaced by zeros. None in manifests
        written by hand.
    format : str
    privaudit : str or None
        Version of privaudit that wrote the bundle; None if another system did.
    """

    protocol: str
    observer: str = "all"
    parties: tuple[Party, ...] = ()
    facts: frozenset[Capability] = frozenset()
    public: Mapping[str, JSON] = field(default_factory=lambda: _EMPTY)
    public_arrays: Mapping[str, BlobRef] = field(default_factory=lambda: _EMPTY)
    settings: Mapping[str, JSON] = field(default_factory=lambda: _EMPTY)
    complete: bool = False
    reason: str | None = "the recorder did not come to its end"
    n_events: int | None = None
    head_hash: str | None = None
    secrets: str | None = None
    outcome: Mapping[str, JSON] | None = None
    digest: str | None = None
    format: str = FORMAT
    privaudit: str | None = __version__

    def to_bytes(self) -> bytes:
        """Return the canonical bytes, which carry their own digest."""
        content: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        content["parties"] = [
            {"id": p.id, "role": p.role, "description": p.description} for p in self.parties
        ]
        content["facts"] = sorted(self.facts)
        content["public_arrays"] = {n: single_json(ref) for n, ref in self.public_arrays.items()}
        return _sealed(content, ordered=("public_arrays",))

    @classmethod
    def from_bytes(cls, raw: bytes, *, limits: Limits) -> Manifest:
        """Check and read a manifest; raise Refusal if anything in it is not as it must be."""
        content = _opened(raw, FORMAT, ("protocol", "parties"), _OPTIONAL, limits=limits)
        outcome = content["outcome"]
        manifest = cls(
            protocol=check_text(content["protocol"], what="'protocol'", limits=limits),
            observer=check_text(content["observer"], what="'observer'", limits=limits),
            parties=_parties(content["parties"], limits=limits),
            facts=_facts(content["facts"]),
            public=_object(content["public"], "public"),
            public_arrays={
                check_text(name, what="the name of an array", limits=limits): parse_single(
                    value, name, limits=limits
                )
                for name, value in _object(content["public_arrays"], "public_arrays").items()
            },
            settings=_object(content["settings"], "settings"),
            complete=_boolean(content["complete"]),
            reason=_optional_text(content["reason"], "reason", limits=limits),
            n_events=_optional_count(content["n_events"]),
            head_hash=_optional_digest(content["head_hash"], "head_hash"),
            secrets=_optional_digest(content["secrets"], "secrets"),
            outcome=None if outcome is None else _object(outcome, "outcome"),
            digest=content["digest"],
            privaudit=_optional_text(content["privaudit"], "privaudit", limits=limits),
        )
        if manifest.complete and (
            manifest.n_events is None or manifest.head_hash is None or not manifest.parties
        ):
            raise Refusal(
                "'complete' is true, so parties, 'n_events' and 'head_hash' must be given"
            )
        return manifest


@dataclass(frozen=True, slots=True)
class TruthManifest:
    """What a truth folder says of itself; ``targets`` is the SHA-256 of ``targets.jsonl``."""

    complete: bool = False
    targets: str | None = None
    digest: str | None = None
    format: str = TRUTH_FORMAT

    def to_bytes(self) -> bytes:
        """Return the canonical bytes, which carry their own digest."""
        return _sealed({f.name: getattr(self, f.name) for f in fields(self)})

    @classmethod
    def from_bytes(cls, raw: bytes, *, limits: Limits) -> TruthManifest:
        """Check and read a manifest of truth; raise Refusal if it is not as it must be."""
        content = _opened(raw, TRUTH_FORMAT, (), {"targets": None}, limits=limits)
        return cls(
            complete=_boolean(content["complete"]),
            targets=_optional_digest(content["targets"], "targets"),
            digest=content["digest"],
        )


def format_of(raw: bytes, *, limits: Limits) -> str | None:
    """Return what a manifest calls its format, or None if it says nothing of the kind."""
    try:
        content = decode(raw, limits=limits)
    except Refusal:
        return None
    value = content.get("format") if isinstance(content, dict) else None
    return value if isinstance(value, str) else None


def _sealed(content: Mapping[str, Any], *, ordered: tuple[str, ...] = ()) -> bytes:
    blank = canonical({**content, "digest": ZEROS}, what="manifest", ordered=ordered) + b"\n"
    digest = hashlib.sha256(blank).hexdigest()
    sealed = canonical({**content, "digest": digest}, what="manifest", ordered=ordered)
    return sealed + b"\n"


def _opened(
    raw: bytes,
    expected: str,
    required: tuple[str, ...],
    optional: Mapping[str, Any],
    *,
    limits: Limits,
) -> dict[str, Any]:
    """Parse a manifest, check its format first, then its keys, then its digest."""
    content = decode(raw, limits=limits)
    if not isinstance(content, dict):
        raise Refusal("the manifest must be a JSON object")
    found = content.get("format")
    if found != expected:
        raise Refusal(
            f"format {str(found)[:80]!r} is not supported; this version of privaudit "
            f"({__version__}) reads '{expected}' here"
        )
    content = check_fields(
        content,
        ("format", "complete", *required),
        optional={**optional, "digest": None},
        what="the manifest",
    )
    if content["digest"] is not None:
        digest = check_digest(content["digest"], what="'digest'").encode()
        if raw.count(digest) != 1:
            raise Refusal("'digest' must occur once in the manifest")
        actual = hashlib.sha256(raw.replace(digest, ZEROS.encode())).hexdigest()
        if actual.encode() != digest:
            raise Refusal(f"its bytes have digest {actual}, not {digest.decode()}: it was changed")
    return content


def _parties(value: Any, *, limits: Limits) -> tuple[Party, ...]:
    if not isinstance(value, list) or len(value) > limits.max_parties:
        raise Refusal(f"'parties' must be a list of at most {limits.max_parties} parties")
    parties = []
    for i, entry in enumerate(value):
        content = check_fields(entry, ("id", "role", "description"), what=f"party {i}")
        texts = {
            key: check_text(
                content[key], what=f"'{key}' of party {i}", limits=limits, empty=key != "id"
            )
            for key in ("id", "role", "description")
        }
        parties.append(Party(texts["id"], texts["role"], texts["description"]))
    if len({party.id for party in parties}) != len(parties):
        raise Refusal("two parties have the same id")
    return tuple(parties)


def _facts(value: Any) -> frozenset[Capability]:
    known = [str(c) for c in Capability]
    if not isinstance(value, list) or not all(isinstance(fact, str) for fact in value):
        raise Refusal("'facts' must be a list of text")
    for fact in value:
        if fact not in known:
            raise Refusal(f"unknown fact {fact[:80]!r}.{did_you_mean(fact, known)}")
    return frozenset(Capability(fact) for fact in value)


def _object(value: Any, key: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Refusal(f"'{key}' must be a JSON object")
    return value


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Refusal("'complete' must be true or false")
    return value


def _optional_text(value: Any, key: str, *, limits: Limits) -> str | None:
    return None if value is None else check_text(value, what=f"'{key}'", limits=limits)


def _optional_count(value: Any) -> int | None:
    if value is not None and not is_count(value):
        raise Refusal("'n_events' must be null or a non-negative integer")
    return None if value is None else int(value)


def _optional_digest(value: Any, key: str) -> str | None:
    return None if value is None else check_digest(value, what=f"'{key}'")

"""What a campaign file says, checked, and the cells that it stands for."""

from __future__ import annotations

import itertools
import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from privaudit import plugins
from privaudit.attacks.presets import resolve
from privaudit.campaigns.coalitions import check_coalition, counted_users, granted_without
from privaudit.campaigns.grid.recorded import loaded
from privaudit.campaigns.grid.specification import CellSpec, excluded_by
from privaudit.campaigns.simulation import (
    FederationConfig,
    SimulationConfig,
    VerticalConfig,
    VerticalSimulationConfig,
)
from privaudit.configuration import constructed, read_toml, validated
from privaudit.errors import ConfigurationError, did_you_mean
from privaudit.protocols.base import runs_on_columns

__all__ = ["AttackPlan", "Campaign", "read_campaign"]

Scalar: TypeAlias = bool | int | float | str
#: A campaign of more cells is more likely a slip than a wish.
MOST_CELLS = 100_000
_SECTIONS = ("parameters", "federation")


class AttackPlan(BaseModel):
    """An attack, its options, and who makes it.

    Attributes
    ----------
    name : str
        As ``privaudit list attacks`` or ``privaudit list presets`` shows it.
    options : dict
        Of the attack; a list is an axis of the grid.
    coalitions : tuple of str
        Each as parties joined by ``+``: ids, or ``N users`` for the first N (``2 users``), for
        example ``"aggregation-server + 1 user"``.
    protocols : tuple of str
        Protocols on whose runs it is made; all of the campaign if empty.
    withhold : tuple of str
        Capabilities that are not granted.
    threat_model : str
        For attacks on indices of vertical runs: one of the presets, in place of coalitions.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    options: dict[str, Any] = Field(default_factory=dict)
    coalitions: tuple[str, ...] = ()
    protocols: tuple[str, ...] = ()
    withhold: tuple[str, ...] = ()
    threat_model: str = ""

    @model_validator(mode="before")
    @classmethod
    def _resolved(cls, given: Any) -> Any:
        """Put the registered attack and its options in place of a preset."""
        if not isinstance(given, dict) or not isinstance(given.get("name"), str):
            return given
        if not isinstance(given.get("options", {}), dict):
            return given
        name, options = resolve(given["name"], given.get("options", {}))
        return {**given, "name": name, "options": options}

    @model_validator(mode="after")
    def _somebody(self) -> AttackPlan:
        if not self.coalitions and not self.threat_model:
            raise ValueError(f"attack '{self.name}' names no coalitions (and no threat_model)")
        granted_without(self.withhold)
        for coalition in self.coalitions:
            check_coalition(coalition)
        return self


class Campaign(BaseModel):
    """A grid of runs, and the attacks made on each.

    Attributes
    ----------
    name : str
    protocol : str
        Of all runs; empty where the grid varies it.
    parameters, federation : dict
        Fixed parts of a run, as in ``privaudit simulate --config``. Where the grid varies the
        protocol, each takes those that it has, and those of a table of its name
        (``[parameters.disue]``) before them.
    seed : int
        Where the grid does not vary it.
    grid : dict of str to list
        Values of ``protocol``, ``seed``, ``parameters.KEY`` or ``federation.KEY`` (or
        ``parameters.PROTOCOL.KEY``); all combinations are taken. A key that a protocol does not
        have is left out of its runs.
    exclude : tuple of dict
        Combinations to leave out: a run is, if it agrees with all keys of an entry.
    attack : tuple of AttackPlan
    confidence : float
        With which all headline figures of the report hold together.
    delta : float
        Of the privacy budgets in the report.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = "campaign"
    protocol: str = ""
    parameters: dict[str, Any] = Field(default_factory=dict)
    federation: dict[str, Any] = Field(default_factory=dict)
    seed: int = Field(0, ge=0)
    grid: dict[str, tuple[Scalar, ...]] = Field(default_factory=dict)
    exclude: tuple[dict[str, Scalar], ...] = ()
    attack: tuple[AttackPlan, ...] = ()
    confidence: float = Field(0.95, gt=0, lt=1)
    delta: float = Field(1e-5, gt=0, lt=1)

    @field_validator("grid")
    @classmethod
    def _known_axes(cls, grid: dict[str, tuple[Scalar, ...]]) -> dict[str, tuple[Scalar, ...]]:
        for key, values in grid.items():
            section, _, name = key.partition(".")
            if key not in ("protocol", "seed") and not (section in _SECTIONS and name):
                raise ValueError(
                    f"'{key}' is no axis; allowed are protocol, seed, parameters.KEY and "
                    f"federation.KEY.{did_you_mean(key, ('protocol', 'seed', 'parameters'))}"
                )
            if not values:
                raise ValueError(f"'{key}' has no values")
            if len(set(map(repr, values))) != len(values):
                raise ValueError(f"'{key}' has a value twice: {list(values)}")
        return grid

    @model_validator(mode="after")
    def _something_to_do(self) -> Campaign:
        if not self.attack:
            raise ValueError("it names no [[attack]]; see examples/quick-campaign.toml")
        if not self.protocol and "protocol" not in self.grid:
            known = plugins.available("protocol")
            raise ValueError(
                'it names no protocol; write protocol = "NAME" above the first table, or '
                f"protocol = [...] in [grid]; known are {', '.join(known)}"
            )
        values = {key: frozenset(axis) for key, axis in self.grid.items()}
        for entry in self.exclude:
            for key in entry:
                if key not in self.grid:
                    axes = ", ".join(self.grid) or "which has none"
                    raise ValueError(
                        f"exclude: '{key}' is not an axis of the grid ({axes})."
                        f"{did_you_mean(key, self.grid)}"
                    )
                if entry[key] not in values[key]:
                    raise ValueError(
                        f"exclude: {key} = {entry[key]!r} excludes nothing; its values are "
                        f"{', '.join(map(repr, self.grid[key]))}"
                    )
        return self

    def runs(self) -> Iterator[dict[str, Any]]:
        """Yield the configuration of each run of the grid once, checked.

        Raises
        ------
        PluginError, ConfigurationError
            If a protocol is unknown, or a parameter is wrong or fits no protocol.
        """
        seen, used = set[str](), set[str]()
        fixed = tuple(self._fixed())
        excluded = excluded_by(self.exclude)
        for values in itertools.product(*self.grid.values()):
            point = dict(zip(self.grid, values, strict=True))
            if excluded(point):
                continue
            run, keys = self._run(point, fixed)
            used |= keys
            written = json.dumps(run, sort_keys=True)
            if written not in seen:
                seen.add(written)
                yield run
        if not seen:
            raise ConfigurationError("the grid is empty: everything is excluded")
        for key in (*(key for key, _ in fixed), *(key for key in self.grid if "." in key)):
            if key not in used:
                known = {f"{s}.{n}" for p in self._protocols() for s, f in _fields(p) for n in f}
                raise ConfigurationError(
                    f"campaign: {key} fits none of the campaign's protocols; privaudit explain "
                    f"PROTOCOL lists the parameters.{did_you_mean(key, known)}"
                )

    def _fixed(self) -> Iterator[tuple[str, Any]]:
        """Yield ``section.KEY`` or ``section.PROTOCOL.KEY`` of every fixed part, with its value."""
        protocols = plugins.available("protocol")
        for section in _SECTIONS:
            for key, value in getattr(self, section).items():
                if key in protocols and isinstance(value, dict):
                    yield from ((f"{section}.{key}.{k}", v) for k, v in value.items())
                else:
                    yield f"{section}.{key}", value

    def _run(
        self, point: Mapping[str, Scalar], fixed: Sequence[tuple[str, Any]]
    ) -> tuple[dict[str, Any], set[str]]:
        """Return a run's configuration, and the keys of the campaign that it uses."""
        protocol = str(point.get("protocol", self.protocol))
        several = len(self._protocols()) > 1
        given = [*fixed, *((k, v) for k, v in point.items() if "." in k)]
        used: set[str] = set()
        chosen: dict[str, dict[str, Any]] = {}
        for section, fields in _fields(protocol):
            chosen[section] = {}
            # What is said of one protocol goes before what is said of all.
            for own in (False, True):
                for key, value in given:
                    where, _, name = key.partition(".")
                    if where != section or name.startswith(f"{protocol}.") != own:
                        continue
                    # Protocols that are compared share what they can; a single one refuses what
                    # it does not know.
                    if own or name in fields or not (several or key in self.grid):
                        chosen[section][name.removeprefix(f"{protocol}.")] = value
                        used.add(key)
        # What is installed is looked up once, because a grid has many runs.
        kind = loaded("protocol", protocol)
        model: type[SimulationConfig | VerticalSimulationConfig] = (
            VerticalSimulationConfig if runs_on_columns(kind) else SimulationConfig
        )
        config = validated(
            model,
            {"protocol": protocol, **chosen, "seed": point.get("seed", self.seed)},
            where="campaign",
        )
        where = f"parameters of protocol '{protocol}'"
        kind(validated(kind.Config, config.parameters, where=where))
        return config.model_dump(mode="json"), used

    def _protocols(self) -> tuple[str, ...]:
        return tuple(str(p) for p in self.grid.get("protocol", (self.protocol,)))

    def cells(self) -> tuple[CellSpec, ...]:
        """Return every cell of the campaign, in a fixed order, each once.

        Raises
        ------
        PluginError, ConfigurationError
            Also if an attack is unknown or has a wrong option, or there are too many cells.
        """
        protocols = self._protocols()
        for plan in self.attack:
            for name in plan.protocols:
                if name not in protocols:
                    raise ConfigurationError(
                        f"attack '{plan.name}' is for protocol '{name}', which the campaign does "
                        f"not run; it runs {', '.join(protocols)}.{did_you_mean(name, protocols)}"
                    )
        self._check_size()
        cells: dict[str, CellSpec] = {}
        spread = [(plan, tuple(_options(plan))) for plan in self.attack]
        for run in self.runs():
            for plan, variants in spread:
                if plan.protocols and run["protocol"] not in plan.protocols:
                    continue
                for options in variants:
                    for who in plan.coalitions or ("",):
                        spec = CellSpec(
                            run=run,
                            attack=plan.name,
                            options=options,
                            coalition=who,
                            withhold=plan.withhold,
                            threat_model=plan.threat_model,
                        )
                        cells.setdefault(spec.key(), spec)
                        if len(cells) > MOST_CELLS:
                            raise ConfigurationError(
                                f"the campaign has more than {MOST_CELLS:,} cells: shorten an "
                                "axis, or split it"
                            )
        _check_counts(cells.values())
        if not cells:
            raise ConfigurationError("no attack of the campaign fits a run of its grid")
        return tuple(cells.values())

    def _check_size(self) -> None:
        """Refuse a grid that is too large by its sizes alone, before it is expanded.

        What is counted is no more than there is, because what is excluded twice is taken off twice.
        """
        total = 0.0
        for protocol in self._protocols():
            plans = [p for p in self.attack if not p.protocols or protocol in p.protocols]
            sizes = self._sizes(protocol)
            taken = sum(
                1 / math.prod(sizes.get(key, 1) for key in entry)
                for entry in self.exclude
                if entry.get("protocol", protocol) == protocol
            )
            runs = math.prod(sizes.values()) * max(0.0, 1 - taken)
            total += runs * sum(map(_made, plans))
        # Room for what is lost in sums of fractions.
        if total > MOST_CELLS + 0.5:
            axes = {key: len(values) for key, values in self.grid.items()}
            for plan in self.attack:
                axes |= {f"{plan.name}: options.{k}": n for k, n in _lengths(plan).items()}
            longest = sorted((k for k in axes if axes[k] > 1), key=lambda k: -axes[k])[:3]
            shown = ", ".join(f"{key} with {axes[key]:,} values" for key in longest)
            raise ConfigurationError(
                f"the campaign has {total:,.0f} cells; allowed are {MOST_CELLS:,}: shorten an axis "
                f"(the longest: {shown}), or split it"
            )

    def _sizes(self, protocol: str) -> dict[str, int]:
        """Return the lengths of the axes of the grid that make runs of a protocol differ."""
        known = dict(_fields(protocol))
        sizes = {}
        for key, values in self.grid.items():
            section, _, name = key.partition(".")
            own = name.startswith(f"{protocol}.")
            if key == "seed" or own or name in known.get(section, ()):
                sizes[key] = len(values)
        # An axis of the protocol's own goes before that of all.
        return {
            key: size
            for key, size in sizes.items()
            if "." not in key or key.replace(".", f".{protocol}.", 1) not in sizes
        }


def _check_counts(cells: Iterable[CellSpec]) -> None:
    """Refuse a coalition of more users than any run has on which it attacks.

    Where some runs have as many, the others are failed cells.
    """
    most: dict[tuple[str, str], int] = {}
    for cell in cells:
        federation = cell.run["federation"]
        users = federation["parties"] if "parties" in federation else federation.get("users")
        who = cell.attack, cell.coalition
        # What is not known before the run is recorded refuses nothing.
        most[who] = max(most.get(who, 0), sys.maxsize if users is None else int(users))
    for (attack, coalition), users in most.items():
        if counted_users(coalition) > users:
            raise ConfigurationError(
                f"attack '{attack}': coalition '{coalition}': no run has more than {users} users"
            )


def _lengths(plan: AttackPlan) -> dict[str, int]:
    """Return the options of a plan that are axes, with their lengths."""
    return {k: len(set(map(repr, v))) for k, v in plan.options.items() if isinstance(v, list)}


def _made(plan: AttackPlan) -> int:
    """Return how many cells a plan makes of a run."""
    return math.prod(_lengths(plan).values()) * max(1, len(set(plan.coalitions)))


def _fields(protocol: str) -> tuple[tuple[str, frozenset[str]], ...]:
    """Return, for each part of a run's configuration, the keys that a protocol has."""
    kind = loaded("protocol", protocol)
    federation = VerticalConfig if runs_on_columns(kind) else FederationConfig
    return (
        ("parameters", frozenset(kind.Config.model_fields)),
        ("federation", frozenset(federation.model_fields)),
    )


def _options(plan: AttackPlan) -> Iterator[dict[str, Any]]:
    """Yield the options of a plan, lists spread out, checked against the attack."""
    kind = loaded("attack", plan.name)
    axes = {k: v if isinstance(v, list) else [v] for k, v in plan.options.items()}
    for key, values in axes.items():
        if not values:
            raise ConfigurationError(f"attack '{plan.name}': option '{key}' has no values")
    for chosen in itertools.product(*axes.values()):
        options = dict(zip(axes, chosen, strict=True))
        constructed(kind, options, where=f"attack '{plan.name}'")
        yield options


def read_campaign(path: Path) -> Campaign:
    """Read a campaign from TOML.

    Raises
    ------
    ConfigurationError
        If it cannot be read, or has a key or value that is not allowed.
    """
    return validated(Campaign, read_toml(path), where=str(path))

"""What an audit of PQ-MDS runs and measures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from privaudit.campaigns.simulation import VerticalConfig, VerticalSimulationConfig
from privaudit.configuration import validated
from privaudit.datasets import DATASETS
from privaudit.datasets.tables import TABLES
from privaudit.errors import ConfigurationError
from privaudit.protocols.pq_mds import PQMDSConfig

__all__ = ["UNEQUAL", "AuditConfig", "Setting", "default_federation"]

#: With which the names of references with parties of unequal width begin.
UNEQUAL = "unequal parties, "
#: Keys of a federation that say how columns are divided.
_DIVISION = frozenset({"split", "parties", "widths", "groups"})


def default_federation(dataset: str) -> dict[str, Any]:
    """Return how columns are divided and rows kept apart, by data set.

    Half of the digits are kept apart, so that an adversary with records of the same population
    has about as many as the parties. Tables are standardised: otherwise the column with the
    largest numbers decides both the clusters and the error of a reconstruction.
    """
    if dataset in DATASETS or dataset.endswith(".npz"):
        return {"split": "halves"} | ({"auxiliary_rows": 897} if dataset == "digits" else {})
    if dataset == "breast-cancer":
        return {"widths": (10, 20), "scaling": "standard"}
    return {"scaling": "standard"}


class Setting(BaseModel):
    """One way of running the protocol that is compared with the audited one.

    Attributes
    ----------
    words : str
        In the report.
    group : {"audited", "setting", "no defence", "coarse", "private", "partition", "table"}
    simulation : VerticalSimulationConfig
    """

    model_config = ConfigDict(frozen=True)

    words: str
    group: str
    simulation: VerticalSimulationConfig


class AuditConfig(BaseModel):
    """An audit of PQ-MDS.

    Attributes
    ----------
    parameters : dict
        Of PQ-MDS; see ``privaudit explain pq-mds``.
    federation : VerticalConfig
        By default the digits in two halves; tables are standardised.
    seed : int
    delta : float
        At which epsilon of the private variant is stated.
    known_rows : int
        Rows that an adversary with known rows knows; a quarter of the rows at most.
    persons : int
        Persons that an adversary looks for; a quarter of the rows at most.
    targets : int
        Rows on which a reconstruction is scored, drawn at random.
    epsilons : tuple of float
        Budgets of a code, of the private variant with one code a party.
    noise_multiplier : float
        Of the codebooks of the private variant.
    beside : bool or None
        Whether other partitions and an embedded table are audited too; if None only beside the
        digits.
    include_examples : bool
        Whether reconstructed records of data that are not public may be in the report.
    confidence : float
        Of the intervals; the headline figures hold together at this confidence (Bonferroni).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    parameters: dict[str, Any] = Field(default_factory=dict)
    federation: VerticalConfig = VerticalConfig(**default_federation("digits"))
    seed: int = Field(0, ge=0)
    delta: float = Field(1e-5, gt=0, lt=1)
    known_rows: int = Field(100, ge=10)
    persons: int = Field(150, ge=10)
    targets: int = Field(200, ge=20)
    epsilons: tuple[float, ...] = (2.0, 4.0, 8.0)
    noise_multiplier: float = Field(5.0, gt=0, allow_inf_nan=False)
    beside: bool | None = None
    include_examples: bool = False
    confidence: float = Field(0.95, gt=0, lt=1)

    @model_validator(mode="before")
    @classmethod
    def _fill_federation(cls, values: Any) -> Any:
        given = values.get("federation") if isinstance(values, Mapping) else None
        if not isinstance(given, Mapping):
            return values
        filled = default_federation(str(given.get("dataset", "digits")))
        if _DIVISION & given.keys():
            filled = {k: v for k, v in filled.items() if k not in _DIVISION}
        return {**values, "federation": {**filled, **given}}

    @property
    def public(self) -> bool:
        """Whether the data are a public set, known by name."""
        return self.federation.dataset in (*DATASETS, *TABLES)

    @property
    def shows_examples(self) -> bool:
        """Whether records may be in the report."""
        return self.public or self.include_examples

    @property
    def with_others(self) -> bool:
        """Whether other partitions and another table are audited too."""
        return self.federation.dataset == "digits" if self.beside is None else self.beside

    def protocol(self) -> PQMDSConfig:
        """Return the checked parameters of the audited protocol.

        Raises
        ------
        ConfigurationError
            If a parameter is unknown or out of range, or is what the audit itself varies.
        """
        settled = validated(PQMDSConfig, self.parameters, where="parameters of protocol 'pq-mds'")
        if settled.release != "indices":
            raise ConfigurationError(
                f"release = '{settled.release}' is a reference that the audit runs itself; audit "
                "release = 'indices'"
            )
        return settled

    def run(
        self, federation: VerticalConfig | None = None, **changes: Any
    ) -> VerticalSimulationConfig:
        """Return the configuration of a run with some parameters changed."""
        chosen = self.federation if federation is None else federation
        parameters = {**_fitting(chosen), **self.parameters, **changes}
        return VerticalSimulationConfig(
            protocol="pq-mds", parameters=parameters, federation=chosen, seed=self.seed
        )

    def settings(self) -> dict[str, Setting]:
        """Return what is recorded and attacked, the audited run first, by a short name."""
        plain = self.protocol().defence == "none" and self.protocol().codebook == "k-means"
        found = {"main": Setting(words="as audited", group="audited", simulation=self.run())}

        def add(name: str, words: str, group: str, simulation: VerticalSimulationConfig) -> None:
            found[name] = Setting(words=words, group=group, simulation=simulation)

        if not plain:
            return found
        add("two-dimensions", "2 dimensions", "setting", self.run(embedding_dimensions=2))
        add("two-subspaces", "2 codes a party", "setting", self.run(subspaces=2))
        add("one-subspace", "1 code a party", "setting", self.run(subspaces=1))
        add("ranks", "ranks for indices", "no defence", self.run(scaling="rank"))
        if not self.protocol().weighted:
            add("smacof", "SMACOF", "no defence", self.run(mds="smacof"))
        add(
            "coarse",
            "coarse codes (no differential privacy)",
            "coarse",
            self.run(subspaces=1, defence="coarse", most_suppressed=0.02),
        )
        for epsilon in self.epsilons:
            add(
                f"private-{epsilon:g}",
                f"private, ε = {epsilon:g} a code, 1 code a party",
                "private",
                self._private(epsilon, subspaces=1, codewords=8),
            )
        add(
            "private-audited",
            f"private, ε = {self.epsilons[0]:g} a code, as many codes as audited",
            "private",
            self._private(self.epsilons[0]),
        )
        if self.with_others:
            self._add_others(add)
        return found

    def _private(self, epsilon: float, **changes: Any) -> VerticalSimulationConfig:
        # A range that does not come from the rows: pixels are in [0, 1], standardised columns
        # mostly within three standard deviations.
        image = self.federation.split in ("halves", "quarters") or self.federation.dataset in (
            *DATASETS,
        )
        given = {"feature_range": (0.0, 1.0) if image else (-3.0, 3.0)} | self.parameters
        return self.run(
            defence="randomized-response",
            epsilon0=epsilon,
            codebook="noisy-lloyd",
            noise_multiplier=self.noise_multiplier,
            feature_range=given["feature_range"],
            **changes,
        )

    def _add_others(self, add: Any) -> None:
        same = self.federation.model_dump(exclude=set(_DIVISION))
        four = VerticalConfig(split="quarters", **same)
        add(
            "four-parties",
            "4 parties (quarters)",
            "partition",
            self.run(four, subspaces=4),
        )
        add(
            "unequal",
            "unequal parties (56 and 8 columns)",
            "partition",
            self.run(self._unequal(), subspaces=(14, 2)),
        )
        table = VerticalConfig(dataset="breast-cancer", **default_federation("breast-cancer"))
        add("table", "breast cancer, 10 and 20 columns", "table", self.run(table))

    def references(self) -> dict[str, VerticalSimulationConfig]:
        """Return the runs of which the clustering alone is compared, by name in the report."""
        if self.protocol().defence != "none" or self.protocol().codebook != "k-means":
            return {}
        found = {
            "reconstruction at the server": self.run(release="reconstruction"),
            "codes as numbers": self.run(release="codes"),
            "one-hot codes": self.run(release="one-hot"),
            "equal variance of parties": self.run(scaling="party"),
            "codebooks with differential privacy, codes without": self.run(
                codebook="noisy-lloyd", noise_multiplier=self.noise_multiplier
            ),
            "no data (random codes)": self.run(
                defence="randomized-response", epsilon0=1e-6, subspaces=1
            ),
        }
        if self.with_others:
            divided = self._unequal()
            found |= {
                f"{UNEQUAL}equal numbers of subspaces": self.run(divided, subspaces=8),
                f"{UNEQUAL}equal variance": self.run(divided, subspaces=8, scaling="party"),
            }
        return found

    def _unequal(self) -> VerticalConfig:
        same = self.federation.model_dump(exclude=set(_DIVISION))
        return VerticalConfig(split="contiguous", widths=(56, 8), **same)


def _fitting(federation: VerticalConfig) -> dict[str, Any]:
    if federation.dataset == "breast-cancer" and federation.widths == (10, 20):
        return {"subspaces": (3, 6)}
    return {}

"""What an audit of DisUE runs and measures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from privaudit.campaigns.simulation import FederationConfig, SimulationConfig
from privaudit.configuration import validated
from privaudit.errors import ConfigurationError
from privaudit.protocols.disue import DisUEConfig
from privaudit.protocols.federation import TrainingConfig

__all__ = ["VARIANTS", "AuditConfig", "default_parameters"]

_OF_TRAINING = frozenset(TrainingConfig.model_fields)

#: Where the federation is not described otherwise: the paper's heterogeneity.
_FEDERATION: Mapping[str, Any] = {"partition": "dirichlet", "alpha": 0.1}

#: How similarities are computed in the runs that are compared.
VARIANTS = ("plain", "pairwise", "relay", "shared_key")


def default_parameters(dataset: str) -> dict[str, Any]:
    """Return training parameters that fit a data set; the same for every protocol compared.

    The paper's batches of 50 suit its data sets of tens of thousands of records. Scikit-learn's
    digits give a client some 60 records, with which no network learns in a few rounds unless
    batches are smaller; the multilayer perceptron learns fastest.
    """
    if dataset == "digits":
        return {"model": "mlp", "batch_size": 10, "rounds": 8}
    return {}


class AuditConfig(BaseModel):
    """An audit of DisUE.

    Attributes
    ----------
    parameters : dict
        Of DisUE, over the defaults for the data set; see ``privaudit explain disue``.
    federation : FederationConfig
        By default a Dirichlet partition with alpha 0.1, as in the paper's experiments.
    seed : int
    variants : tuple of str
        Similarity computations whose views are compared, each in one round with all clients.
    linking_rounds : int
        Rounds of the run with relayed similarities, in which clients are linked; the runs of the
        other variants have one.
    probe_users : int
        Users of the single-record run on which ciphertexts are followed to pictures. One more
        than the targets, because the last client of a round starts no comparison.
    large_model_users : int
        Users of the single-record run of the 582,026-parameter network; 0 leaves it out.
    confidence : float
        Of the intervals; the headline figures hold together at this confidence (Bonferroni).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    parameters: dict[str, Any] = Field(default_factory=dict)
    federation: FederationConfig = FederationConfig(**_FEDERATION)
    seed: int = Field(0, ge=0)
    variants: tuple[str, ...] = VARIANTS
    linking_rounds: int = Field(5, ge=2)
    probe_users: int = Field(21, ge=3)
    large_model_users: int = Field(4, ge=0)
    confidence: float = Field(0.95, gt=0, lt=1)

    @field_validator("federation", mode="before")
    @classmethod
    def _of_the_paper(cls, value: Any) -> Any:
        """Keep the paper's heterogeneity where a federation is described in part."""
        return {**_FEDERATION, **value} if isinstance(value, Mapping) else value

    def protocol(self) -> DisUEConfig:
        """Return the checked parameters of the audited protocol.

        Raises
        ------
        ConfigurationError
            If a parameter is unknown or out of range, or a variant is.
        """
        for variant in self.variants:
            if variant not in VARIANTS:
                raise ConfigurationError(
                    f"variants: '{variant}' is not one of {', '.join(VARIANTS)}"
                )
        return validated(DisUEConfig, self._merged(), where="parameters of protocol 'disue'")

    def _merged(self) -> dict[str, Any]:
        return {**default_parameters(self.federation.dataset), **self.parameters}

    def run(self, **changes: Any) -> SimulationConfig:
        """Return the configuration of a DisUE run with some parameters changed."""
        return SimulationConfig(
            protocol="disue",
            parameters={**self._merged(), **changes},
            federation=self.federation,
            seed=self.seed,
        )

    def variant(self, similarity: str) -> SimulationConfig:
        """Return a short run with all clients under a way of computing similarities.

        Where the variant permits, models are aggregated securely, so that what the server learns
        of them it learns from the similarity computation.
        """
        return self.run(
            similarity=similarity,
            clustering="affinity-propagation",
            aggregation="plain" if similarity == "plain" else "secagg",
            participation=1.0,
            rounds=self.linking_rounds if similarity == "relay" else 1,
        )

    def compared(self) -> dict[str, SimulationConfig]:
        """Return the runs whose accuracy is compared with that of the audited one."""
        training = {
            name: value
            for name, value in self.protocol().model_dump(mode="json").items()
            if name in _OF_TRAINING
        }
        return {
            "without distillation (average of the clusters)": self.run(distillation="none"),
            "FedAvg, all clients": SimulationConfig(
                protocol="fedavg",
                parameters=training,
                federation=self.federation,
                seed=self.seed,
            ),
        }

    def probe(self, *, large: bool = False) -> SimulationConfig:
        """Return one round in which every user holds one record and its update is one gradient.

        Parameters
        ----------
        large : bool
            Whether to use records of 28 x 28 pixels and the 582,026-parameter network.
        """
        dataset = self.federation.dataset
        enlarged = large and dataset == "digits"
        federation = self.federation.model_copy(
            update={
                "dataset": "digits28" if enlarged else dataset,
                "users": self.large_model_users if large else self.probe_users,
                "partition": "single-record",
                "records_per_user": None,
            }
        )
        audited = {k: v for k, v in self._merged().items() if k not in _OF_TRAINING}
        parameters: dict[str, Any] = {
            **audited,
            "similarity": "relay",
            "clustering": "affinity-propagation",
            "aggregation": "secagg",
            "distillation": "none",
            "participation": 1.0,
            "rounds": 1,
            "update": "gradient",
        }
        if large:
            parameters["model"] = "cnn"
        elif "model" in self.parameters:
            parameters["model"] = self.parameters["model"]
        return SimulationConfig(
            protocol="disue", parameters=parameters, federation=federation, seed=self.seed
        )

"""What an audit of PA-CFL runs and measures."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, model_validator

from privaudit.accounting.bracket import MOST_EPSILON0
from privaudit.campaigns.simulation import FederationConfig, SimulationConfig
from privaudit.configuration import validated
from privaudit.errors import ConfigurationError, did_you_mean
from privaudit.protocols.federation import TrainingConfig
from privaudit.protocols.pa_cfl import PACFLConfig

__all__ = ["AuditConfig", "default_parameters"]


#: Figures that can be asked for besides those of every report.
FIGURES: Final = ("exposures",)

#: Users of the runs on which membership is asked, at most.
_MEMBERSHIP_USERS: Final = 20

#: Parameters that every protocol of this federation shares.
_OF_TRAINING = frozenset(TrainingConfig.model_fields)


def default_parameters(dataset: str) -> dict[str, Any]:
    """Return training parameters that fit a data set; the same for every protocol compared.

    The paper's (learning rate 0.01, batches of 64) suit its data sets of tens of thousands of
    records. Scikit-learn's digits give a user some 60 records, one batch an epoch, from which
    nothing is learned in ten rounds: smaller batches and larger steps.
    """
    if dataset.startswith("digits"):
        return {"rounds": 10, "learning_rate": 0.1, "batch_size": 16}
    return {"rounds": 10}


class AuditConfig(BaseModel):
    """An audit of PA-CFL.

    Attributes
    ----------
    parameters : dict
        Of PA-CFL, over the defaults for the data set; see ``privaudit explain pa-cfl``.
    federation : FederationConfig
    seed : int
    sweep_epsilon0 : tuple of float
        Local budgets at which utility is compared, besides the audited one.
    reference_epsilon0 : float
        Local budget of a second recorded run, one that trains, for attacks over rounds.
    reference_rounds : int
        Rounds of that run.
    probe_users : int
        Users of the single-record runs on which gradient inversion is tried. One more than the
        targets, because one of them colludes.
    probe_fractions : tuple of float
        Values of k as a fraction of the dimension (paper, figure 10: 0.1 % to 10 %).
    membership_records : int
        Records of each user in the runs on which membership is asked: few, so that a record shows
        in its user's gradient if nothing hides it.
    figures : tuple of str
        Of ``FIGURES``. Not part of what makes an audit another one: a folder may hold the audit
        already, and only what a figure needs besides is computed.
    delta : float
        At which epsilon is stated.
    confidence : float
        Of the intervals; the headline figures hold together at this confidence (Bonferroni).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    parameters: dict[str, Any] = Field(default_factory=dict)
    federation: FederationConfig = FederationConfig()
    seed: int = Field(0, ge=0)
    sweep_epsilon0: tuple[float, ...] = (1.0, 3.0, 10.0, 30.0)
    reference_epsilon0: float = Field(30.0, gt=0)
    reference_rounds: int = Field(4, ge=2)
    probe_users: int = Field(21, ge=3)
    probe_fractions: tuple[float, ...] = (0.001, 0.0025, 0.01, 0.05, 0.1)
    membership_records: int = Field(16, ge=2)
    figures: tuple[str, ...] = Field((), exclude=True)
    delta: float = Field(1e-5, gt=0, lt=1)
    confidence: float = Field(0.95, gt=0, lt=1)

    @model_validator(mode="after")
    def _positive(self) -> AuditConfig:
        if any(not e > 0 for e in self.sweep_epsilon0):
            raise ValueError(f"sweep_epsilon0 must be positive, got {self.sweep_epsilon0}")
        if any(not 0 < k < 1 for k in self.probe_fractions):
            raise ValueError(f"probe_fractions must be in (0, 1), got {self.probe_fractions}")
        for name in self.figures:
            if name not in FIGURES:
                raise ValueError(
                    f"there is no figure '{name}'; allowed are {', '.join(FIGURES)}."
                    f"{did_you_mean(name, FIGURES)}"
                )
        return self

    @property
    def public(self) -> bool:
        """Whether the records are public, so that a report may show them."""
        return not self.federation.dataset.endswith(".npz")

    def protocol(self) -> PACFLConfig:
        """Return the checked parameters of the audited protocol.

        Raises
        ------
        ConfigurationError
            If a parameter is unknown or out of range, or does not fit an audit.
        """
        config = validated(PACFLConfig, self._merged(), where="parameters of protocol 'pa-cfl'")
        for name, values in (
            ("epsilon0", (config.epsilon0,)),
            ("reference_epsilon0", (self.reference_epsilon0,)),
            ("sweep_epsilon0", self.sweep_epsilon0),
        ):
            for value in values:
                # No budget could be given in the end.
                if value > MOST_EPSILON0:
                    raise ConfigurationError(
                        f"{name} = {value:g}: an audit proves budgets, which it can for values of "
                        f"epsilon0 up to {MOST_EPSILON0:g}"
                    )
        if config.top_k is not None:
            raise ConfigurationError(
                f"top_k = {config.top_k}: an audit attacks models of several sizes; give "
                "top_k_fraction instead (the paper's is 0.0025)"
            )
        if not config.protection:
            raise ConfigurationError(
                "protection = false: an audit compares PA-CFL with its unprotected variant by "
                "itself; leave protection on, or record one run with privaudit simulate"
            )
        return config

    def _merged(self) -> dict[str, Any]:
        return {**default_parameters(self.federation.dataset), **self.parameters}

    def run(self, **changes: Any) -> SimulationConfig:
        """Return the configuration of a PA-CFL run with some parameters changed."""
        return SimulationConfig(
            protocol="pa-cfl",
            parameters={**self._merged(), **changes},
            federation=self.federation,
            seed=self.seed,
        )

    def reference(self) -> SimulationConfig:
        """Return the configuration of the second recorded run, one that trains."""
        return self.run(epsilon0=self.reference_epsilon0, rounds=self.reference_rounds)

    def fedavg(self) -> SimulationConfig:
        """Return FedAvg on the same federation with the same training parameters."""
        parameters = {k: v for k, v in self._merged().items() if k in _OF_TRAINING}
        return SimulationConfig(
            protocol="fedavg",
            parameters=parameters,
            federation=self.federation,
            seed=self.seed,
        )

    def membership(self, *, protected: bool) -> SimulationConfig:
        """Return a one-round run in which users of few records send one gradient.

        Parameters
        ----------
        protected : bool
            PA-CFL at the audited parameters, or FedAvg, which shows what the same attack reaches
            where nothing hides the updates.
        """
        own = self.federation
        users = min(own.users, _MEMBERSHIP_USERS)
        federation = own.model_copy(
            update={
                "users": users,
                "groups": own.groups if users == own.users else None,
                "partition": "iid" if own.partition == "single-record" else own.partition,
                "records_per_user": min(
                    self.membership_records, own.records_per_user or self.membership_records
                ),
            }
        )
        return self._single_gradient(federation, protected=protected)

    def _single_gradient(
        self, federation: FederationConfig, *, protected: bool
    ) -> SimulationConfig:
        """Return a run of one round and one gradient, otherwise at the audited parameters."""
        parameters: dict[str, Any] = {"rounds": 1, "update": "gradient"}
        if "model" in self.parameters and federation.dataset == self.federation.dataset:
            parameters["model"] = self.parameters["model"]
        if protected:
            audited = {k: v for k, v in self._merged().items() if k not in _OF_TRAINING}
            parameters = {**audited, **parameters}
        return SimulationConfig(
            protocol="pa-cfl" if protected else "fedavg",
            parameters=parameters,
            federation=federation,
            seed=self.seed,
        )

    def probe(self, *, fraction: float | None, paper_model: bool = False) -> SimulationConfig:
        """Return a one-round run in which every user holds one record and sends its gradient.

        Parameters
        ----------
        fraction : float or None
            k over the dimension; None gives FedAvg, the undefended neighbour.
        paper_model : bool
            Whether to take records of 28 x 28 pixels and the paper's CNN where the federation's
            data set is the small digits; attacks on more parameters see more.
        """
        dataset = self.federation.dataset
        federation = self.federation.model_copy(
            update={
                "dataset": "digits28" if paper_model and dataset == "digits" else dataset,
                "users": self.probe_users,
                "partition": "single-record",
                "records_per_user": None,
            }
        )
        run = self._single_gradient(federation, protected=fraction is not None)
        if fraction is None:
            return run
        return run.model_copy(update={"parameters": {**run.parameters, "top_k_fraction": fraction}})

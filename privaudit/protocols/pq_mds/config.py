"""Parameters of PQ-MDS, each open point of the paper as an option."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from privaudit.errors import ConfigurationError
from privaudit.quantisation.product import LayoutRule
from privaudit.quantisation.upload import Encoding, Scaling

__all__ = ["PQMDSConfig"]

_SUBSPACES = 8


class PQMDSConfig(BaseModel):
    """Parameters of a run; ``docs/protocols/pq-mds.md`` gives the reason for each default.

    Attributes
    ----------
    subspaces : int, tuple of int, or None
        M, of every party or of each; if None 8, or as many as the party has columns.
    codewords : int
        K of a subspace; fewer where a subspace has fewer distinct rows.
    embedding_dimensions : int
        r, less than K. The paper embeds in one dimension.
    mds : {"classical", "smacof"}
    weighted : bool
        Weigh the centres by their numbers of rows in classical scaling.
    scaling : {"raw", "unit", "minmax", "party", "rank"}
        Of the upload; see :func:`privaudit.quantisation.scaled_table`.
    standardize : bool
        Parties standardise their columns before quantisation.
    layout : {"contiguous", "equal", "permuted"}
        How columns are divided over subspaces; ``equal`` refuses a remainder, as the paper does.
    iterations, points_per_codeword : int
        Of the codebooks' k-means; see :func:`privaudit.quantisation.train_quantiser`.
    clusters : int or None
        k of the server's k-means; if None as many as the data have classes, or 10.
    initialisations : int
        Starts of the server's k-means, of which the best is taken.
    rounds : int
        In each round every party trains new codebooks and uploads anew.
    encoding : {"dense", "table"}
    release : {"indices", "reconstruction", "codes", "one-hot"}
        ``indices`` is the protocol. References: ``reconstruction`` uploads codes and codebooks
        (what the paper improves on), ``codes`` and ``one-hot`` upload codes without MDS, which
        the server takes as numbers or as indicators.
    alignment : {"given", "salted-hash"}
        Whether rows are aligned beforehand, or by hashes that the server compares.
    return_labels, return_centroids : bool
        What the server sends back.
    defence : {"none", "coarse", "randomized-response"}
        ``coarse``: one subspace a party and so few codewords that every tuple of codes occurs
        ``k_anonymity`` times: no differential privacy. ``randomized-response``: each code is
        randomized with budget ``epsilon0``.
    k_anonymity : int
    most_suppressed : float
        Share of rows that ``coarse`` may leave out rather than take fewer codewords.
    epsilon0 : float or None
    codebook : {"k-means", "noisy-lloyd", "auxiliary"}
        How codebooks are trained: on the rows; on the rows with differential privacy; on the
        auxiliary rows, taken as public. With ``noisy-lloyd`` or ``auxiliary`` and without
        randomized response there is still no formal guarantee: the codes leak.
    noise_multiplier : float or None
        Of ``noisy-lloyd``: standard deviation over the L2 sensitivity.
    noisy_steps : int
    feature_range : tuple of float
        Of ``noisy-lloyd``: bounds to which every feature is clipped; must not come from the rows.
    reference : bool
        Measure agreement with k-means on the centralised features.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    subspaces: int | tuple[int, ...] | None = None
    codewords: int = Field(16, ge=1, le=2**16)
    embedding_dimensions: int = Field(1, ge=1)
    mds: Literal["classical", "smacof"] = "classical"
    weighted: bool = False
    scaling: Scaling = "raw"
    standardize: bool = False
    layout: LayoutRule = "contiguous"
    iterations: int = Field(20, ge=1)
    points_per_codeword: int | None = Field(256, ge=1)
    clusters: int | None = Field(None, ge=1, le=2**16)
    initialisations: int = Field(10, ge=1)
    rounds: int = Field(1, ge=1)
    encoding: Encoding = "dense"
    release: Literal["indices", "reconstruction", "codes", "one-hot"] = "indices"
    alignment: Literal["given", "salted-hash"] = "given"
    return_labels: bool = True
    return_centroids: bool = True
    defence: Literal["none", "coarse", "randomized-response"] = "none"
    k_anonymity: int = Field(5, ge=2)
    most_suppressed: float = Field(0.0, ge=0, lt=1)
    epsilon0: float | None = Field(None, gt=0, allow_inf_nan=False)
    codebook: Literal["k-means", "noisy-lloyd", "auxiliary"] = "k-means"
    noise_multiplier: float | None = Field(None, gt=0, allow_inf_nan=False)
    noisy_steps: int = Field(5, ge=1)
    feature_range: tuple[float, float] = (0.0, 1.0)
    reference: bool = True

    @model_validator(mode="after")
    def _consistent(self) -> PQMDSConfig:
        if self.codewords > 1 and self.embedding_dimensions >= self.codewords:
            raise ValueError(
                f"embedding_dimensions must be less than codewords ({self.codewords}), got "
                f"{self.embedding_dimensions}"
            )
        given = (self.subspaces,) if isinstance(self.subspaces, int) else self.subspaces
        if given is not None and min(given, default=0) < 1:
            raise ValueError(f"subspaces must be at least 1, got {self.subspaces}")
        if self.mds == "smacof" and self.weighted:
            raise ValueError("weighted goes with mds = 'classical'")
        if (self.defence == "randomized-response") != (self.epsilon0 is not None):
            raise ValueError("epsilon0 goes with defence = 'randomized-response', and only with it")
        if (self.codebook == "noisy-lloyd") != (self.noise_multiplier is not None):
            raise ValueError(
                "noise_multiplier goes with codebook = 'noisy-lloyd', and only with it"
            )
        if self.defence != "none" and self.release != "indices":
            raise ValueError(f"defence '{self.defence}' goes with release = 'indices'")
        if self.defence == "coarse" and (self.codebook != "k-means" or set(given or ()) != {1}):
            raise ValueError("defence 'coarse' goes with subspaces = 1 and codebook = 'k-means'")
        if self.defence == "coarse" and self.rounds > 1:
            raise ValueError(
                "defence 'coarse' goes with rounds = 1: tuples of several rounds together are rare"
            )
        if not self.feature_range[0] < self.feature_range[1]:
            raise ValueError(f"feature_range must ascend, got {self.feature_range}")
        return self

    def subspaces_of(self, parties: tuple[str, ...], columns: tuple[int, ...]) -> tuple[int, ...]:
        """Return M of each party.

        Raises
        ------
        ConfigurationError
            If there is not one number a party, or a party has fewer columns, or layout ``equal``
            leaves a remainder; names the party.
        """
        if self.subspaces is None:
            numbers = tuple(min(_SUBSPACES, held) for held in columns)
        elif isinstance(self.subspaces, int):
            numbers = (self.subspaces,) * len(parties)
        else:
            numbers = self.subspaces
        if len(numbers) != len(parties):
            raise ConfigurationError(
                f"subspaces = {list(numbers)} are for {len(numbers)} parties; the data have "
                f"{len(parties)}: {', '.join(parties)}"
            )
        for party, number, held in zip(parties, numbers, columns, strict=True):
            if number > held:
                raise ConfigurationError(
                    f"party '{party}' has {held} columns, too few for {number} subspaces: give "
                    "fewer, for each party with subspaces = [M1, M2, ...]"
                )
            if self.layout == "equal" and held % number:
                raise ConfigurationError(
                    f"layout 'equal': the {held} columns of party '{party}' are not divisible by "
                    f"{number} subspaces: use layout 'contiguous', or other subspaces"
                )
        return numbers

"""What a party does on its own: quantise its columns, embed its codebooks, make its upload."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privaudit.protocols.pq_mds.config import PQMDSConfig
from privaudit.quantisation import (
    Layout,
    ProductQuantiser,
    UploadTable,
    classical_mds,
    scaled_table,
    smacof,
    train_quantiser,
)
from privaudit.quantisation.randomised import noisy_lloyd, randomized_response

__all__ = ["Quantised", "make_upload", "padded_centres", "quantise", "standardised"]

Features = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Quantised:
    """A party's codebooks and the true codes of its rows.

    Attributes
    ----------
    quantiser : ProductQuantiser
    codes : ndarray of uint8 or uint16, shape (n, M)
    """

    quantiser: ProductQuantiser
    codes: npt.NDArray[np.integer]


def standardised(features: Features, reference: Features | None = None) -> Features:
    """Return columns with mean 0 and standard deviation 1 by the rows of ``reference``.

    Columns that do not vary become 0.
    """
    source = (features if reference is None else reference).astype(np.float64)
    mean, spread = source.mean(axis=0), source.std(axis=0)
    constant = spread <= 1e-12 * np.maximum(1.0, np.abs(mean))
    values = np.where(constant, 0.0, (features - mean) / np.where(constant, 1.0, spread))
    return np.asarray(values, dtype=np.float32)


def quantise(
    features: Features,
    layout: Layout,
    *,
    config: PQMDSConfig,
    codewords: int,
    public: Features,
    rng: np.random.Generator,
) -> Quantised:
    """Train a party's codebooks and encode its rows.

    Parameters
    ----------
    features : ndarray of float32, shape (n, d)
    layout : Layout
    config : PQMDSConfig
    codewords : int
    public : ndarray of float32, shape (m, d)
        The party's columns of the auxiliary rows, used with ``codebook = "auxiliary"`` only.
    rng : numpy.random.Generator
    """
    if config.codebook == "noisy-lloyd":
        assert config.noise_multiplier is not None
        features = np.clip(features, *config.feature_range)
        codebooks = tuple(
            noisy_lloyd(
                features[:, block],
                codewords,
                bounds=config.feature_range,
                noise_multiplier=config.noise_multiplier,
                steps=config.noisy_steps,
                rng=stream,
            )
            for block, stream in zip(layout.blocks, rng.spawn(len(layout.blocks)), strict=True)
        )
        quantiser = ProductQuantiser(layout, codebooks)
    else:
        quantiser = train_quantiser(
            public if config.codebook == "auxiliary" else features,
            layout,
            codewords=codewords,
            iterations=config.iterations,
            points_per_codeword=config.points_per_codeword,
            rng=rng,
        )
    return Quantised(quantiser, quantiser.encode(features))


def embedded_codebooks(
    quantised: Quantised, config: PQMDSConfig
) -> tuple[npt.NDArray[np.float64], ...]:
    """Embed each codebook; one with too few centres for r dimensions is padded with zeros."""
    embeddings = []
    for m, centres in enumerate(quantised.quantiser.codebooks):
        r = min(config.embedding_dimensions, max(1, len(centres) - 1))
        if config.mds == "smacof":
            embedding = smacof(centres, r)
        else:
            counts = np.bincount(quantised.codes[:, m], minlength=len(centres))
            embedding = classical_mds(centres, r, weights=counts if config.weighted else None)
        missing = config.embedding_dimensions - r
        embeddings.append(np.pad(embedding, ((0, 0), (0, missing))))
    return tuple(embeddings)


def make_upload(
    quantised: Quantised, config: PQMDSConfig, *, codewords: int, rng: np.random.Generator
) -> UploadTable:
    """Return what the party uploads: its embedded codebooks, looked up by (randomized) codes."""
    codes = quantised.codes
    if config.defence == "randomized-response":
        assert config.epsilon0 is not None
        codes = codes.copy()
        for m, categories in enumerate(quantised.quantiser.codewords):
            codes[:, m] = randomized_response(
                codes[:, m], categories=categories, epsilon=config.epsilon0, rng=rng
            )
        # What is derived from the codes from here on must come from the randomized ones.
        quantised = Quantised(quantised.quantiser, codes)
    embeddings = embedded_codebooks(quantised, config)
    return scaled_table(embeddings, codes, codewords=codewords, scaling=config.scaling)


def padded_centres(quantiser: ProductQuantiser, codewords: int) -> Features:
    """Return all codebooks as one array (K, columns), zero beyond a subspace's codewords."""
    centres = np.zeros((codewords, quantiser.layout.columns), dtype=np.float32)
    for block, own in zip(quantiser.layout.blocks, quantiser.codebooks, strict=True):
        centres[: len(own), block] = own
    return centres

"""What the server averages: models within a group, in the clear or masked, and the groups'."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from privaudit.errors import InvalidDataError
from privaudit.protocols.disue import kinds
from privaudit.protocols.disue.channel import Channel
from privaudit.secure_computation.integers import RandomSource
from privaudit.secure_computation.masking import aggregate, mask, pairwise_seeds
from privaudit.transcript import PartyId

__all__ = ["FRACTION_BITS", "average_of_groups", "fixed_point", "masked_mean", "weighted_mean"]

#: Bits after the point of a masked parameter; a sum is exact below 2 ** (63 - 24) in magnitude.
FRACTION_BITS: Final = 24

Float32 = npt.NDArray[np.float32]
Int64 = npt.NDArray[np.int64]


def weighted_mean(models: Float32, records: Int64) -> Float32:
    """Return the mean of models, weighted by records: FedAvg within a group (eq. 2).

    Parameters
    ----------
    models : ndarray of float32, shape (members, d)
    records : ndarray of int64, shape (members,)
    """
    shares = records / records.sum()
    mean: npt.NDArray[np.float64] = shares @ models.astype(np.float64)
    return mean.astype(np.float32)


def average_of_groups(
    models: Float32, records: Int64, *, weights: Literal["records", "equal"]
) -> Float32:
    """Return the average of the groups' models, from which distillation starts.

    Parameters
    ----------
    models : ndarray of float32, shape (groups, d)
    records : ndarray of int64, shape (groups,)
    weights : {"records", "equal"}
    """
    return weighted_mean(models, records if weights == "records" else np.ones_like(records))


def fixed_point(model: Float32, *, records: int) -> Int64:
    """Return a model times its records as integers, with 24 bits after the point.

    Raises
    ------
    InvalidDataError
        If a product needs more than 55 bits, so that a sum over 256 clients could overflow.
    """
    scaled = np.rint(model.astype(np.float64) * records * (1 << FRACTION_BITS))
    if not (np.abs(scaled) < 2.0**55).all():
        raise InvalidDataError(
            f"a parameter times {records} records is at most 2^31 in magnitude under masks; the "
            f"largest here is {np.abs(model).max() * records:.3g}"
        )
    return scaled.astype(np.int64)


def masked_mean(
    channel: Channel,
    models: Mapping[PartyId, Float32],
    records: Mapping[PartyId, int],
    *,
    source: RandomSource,
) -> Float32:
    """Let the clients of a group send masked models, and return the mean that the server gets.

    The server names each client its peers. Seeds stand for what a key agreement gives; only the
    two clients of a seed hold it.

    Parameters
    ----------
    channel : Channel
    models : mapping of client to ndarray of float32, shape (d,)
        Of at least two clients.
    records : mapping of client to int
    source : RandomSource
        Of the seeds.
    """
    seeds = pairwise_seeds(models, source=source)
    masked = {}
    for client in models:
        peers = [other for other in models if other != client]
        channel.send(kinds.CLUSTER_PEERS, kinds.SERVER, client, {"peers": peers})
        for peer in peers:
            seed = np.frombuffer(seeds[client][peer], dtype=np.uint8)
            channel.keep(client, f"mask-seed/{peer}", seed)
    for client, model in models.items():
        masked[client] = mask(
            fixed_point(model, records=records[client]),
            client=client,
            seeds=seeds[client],
            round_index=channel.round,
        )
        channel.send(kinds.MASKED_PARAMETERS, client, kinds.SERVER, values=masked[client])
    total = aggregate(masked, clients=models).astype(np.float64)
    mean = total / (1 << FRACTION_BITS) / sum(records.values())
    return mean.astype(np.float32)

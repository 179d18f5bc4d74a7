"""Scores of attacks on tables whose columns are spread over parties.

Guesses of rows are joined to the truth by row id: the target ``row-<id>`` is the row with that id
in the truth's ``rows``, and the truth's parties hold its ``features`` in ``columns`` of the whole
table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privaudit.attacks.base import Guesses
from privaudit.errors import ConfigurationError, InvalidDataError
from privaudit.scoring.estimate import Scores
from privaudit.transcript import PartyId, Truth

__all__ = [
    "advantage",
    "attribute_accuracy",
    "code_bijection",
    "grid_accuracy",
    "linked_within",
    "normalised_error",
    "person_truth",
    "record_identification",
    "record_psnr",
    "singled_out",
]

Float64 = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

#: Truth target that holds the rows' ids.
ROWS = "rows"
#: Rows compared at once.
_BLOCK = 4096
#: Mean squared error below which two rows count as equal: 120 dB.
_SMALLEST_ERROR = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """The true rows of a run, column-wise by party, and where each target is among them."""

    parts: tuple[tuple[Ints, npt.NDArray[np.floating]], ...]
    places: Ints

    @classmethod
    def of(cls, guesses: Guesses, truth: Truth, parties: Sequence[PartyId] | None) -> _Rows:
        chosen = tuple(
            (np.asarray(arrays["columns"], dtype=np.int64), np.asarray(arrays["features"]))
            for party, arrays in truth.targets.items()
            if "features" in arrays and (parties is None or party in parties)
        )
        if not chosen:
            raise ConfigurationError(
                f"the truth holds no features of {'any party' if parties is None else parties}"
            )
        return cls(chosen, _places(guesses, truth))

    @property
    def width(self) -> int:
        return sum(len(columns) for columns, _ in self.parts)

    def blocks(self, guesses: Guesses) -> Iterator[tuple[slice, Float64, Float64]]:
        """Yield guessed and true rows in the compared columns, a block of targets at a time."""
        for start in range(0, len(self.places), _BLOCK):
            part = slice(start, min(start + _BLOCK, len(self.places)))
            guess = np.stack(guesses.values[part]).astype(np.float64)
            at = self.places[part]
            found, true = [], []
            for columns, features in self.parts:
                if guess.ndim != 2 or columns.max(initial=-1) >= guess.shape[1]:
                    raise InvalidDataError(
                        f"guesses of shape {guess.shape[1:]} do not hold column {columns.max()}"
                    )
                found.append(guess[:, columns])
                true.append(features[at].astype(np.float64))
            yield part, np.concatenate(found, axis=1), np.concatenate(true, axis=1)


def _places(guesses: Guesses, truth: Truth) -> Ints:
    ids = truth.get(ROWS, "ids")
    place = {int(row): i for i, row in enumerate(ids)}
    result = np.empty(len(guesses.target_ids), dtype=np.int64)
    for i, target in enumerate(guesses.target_ids):
        row = target.removeprefix("row-")
        if row == target or not row.lstrip("-").isdigit() or int(row) not in place:
            raise KeyError(f"the truth holds no row for the target '{target}'")
        result[i] = place[int(row)]
    return result


def normalised_error(
    guesses: Guesses, truth: Truth, *, parties: Sequence[PartyId] | None = None
) -> Scores:
    r"""Score rows by their squared error over the mean squared distance from the mean row.

    The mean of the scores is the normalised reconstruction error
    :math:`\sum\|x-\hat x\|^2/\sum\|x-\bar x\|^2` over the targets: 0 is perfect, 1 what the mean
    of the targets themselves achieves, which no adversary knows better.

    Parameters
    ----------
    guesses : Guesses
        Values of shape (columns of the whole table,).
    truth : Truth
    parties : sequence of PartyId, optional
        Whose columns to compare; all by default.

    Raises
    ------
    KeyError
        If the truth does not hold a target.
    ConfigurationError, InvalidDataError
        If it holds no features, a guess does not hold a column, or the targets are all equal.
    """
    rows = _Rows.of(guesses, truth, parties)
    error = np.empty(len(rows.places))
    total, square = np.zeros(rows.width), 0.0
    for part, guess, true in rows.blocks(guesses):
        error[part] = ((guess - true) ** 2).sum(axis=1)
        total += true.sum(axis=0)
        square += float((true**2).sum())
    spread = square / len(error) - float(((total / len(error)) ** 2).sum())
    if spread <= 1e-12 * max(square / len(error), 1e-300):
        raise InvalidDataError("the targets' records are all equal: no error can be normalised")
    return Scores(
        metric="normalised reconstruction error",
        statistic="mean",
        per_target=dict(zip(guesses.target_ids, (error / spread).tolist(), strict=True)),
        higher_is_leakier=False,
    )


def record_psnr(
    guesses: Guesses,
    truth: Truth,
    *,
    peak: float = 1.0,
    parties: Sequence[PartyId] | None = None,
) -> Scores:
    """Score rows by peak signal-to-noise ratio in dB, ``10 log10(peak^2 / MSE)``, at most 120.

    For rows that are pictures, and whose features are in [0, peak]; guesses are clamped to it.
    Parameters and errors as :func:`normalised_error`.
    """
    rows = _Rows.of(guesses, truth, parties)
    value = np.empty(len(rows.places))
    for part, guess, true in rows.blocks(guesses):
        clamped = np.where(np.isfinite(guess), np.clip(guess, 0.0, peak), np.nan)
        mse = ((clamped - true) ** 2).mean(axis=1) / peak**2
        value[part] = -10 * np.log10(np.maximum(mse, _SMALLEST_ERROR))
    return Scores(
        metric="PSNR (dB)",
        statistic="mean",
        per_target=dict(zip(guesses.target_ids, value.tolist(), strict=True)),
    )


def record_identification(
    guesses: Guesses, truth: Truth, *, parties: Sequence[PartyId] | None = None
) -> Scores:
    """Score 1 where a guess is nearer to its own record than to every other of the run.

    An equally near record counts against it. Parameters and errors as :func:`normalised_error`.
    """
    rows = _Rows.of(guesses, truth, parties)
    every = np.concatenate([features for _, features in rows.parts], axis=1).astype(np.float64)
    square = (every**2).sum(axis=1)
    nearest = np.empty(len(rows.places))
    for part, guess, _ in rows.blocks(guesses):
        at = rows.places[part]
        for start in range(0, len(at), 64):
            some, own = guess[start : start + 64], at[start : start + 64]
            # Half the squared distance, less what all records share.
            distance = square[None] / 2 - some @ every.T
            mine = np.take_along_axis(distance, own[:, None], axis=1)[:, 0].copy()
            np.put_along_axis(distance, own[:, None], np.inf, axis=1)
            found = np.isfinite(some).all(axis=1) & (mine < distance.min(axis=1) - 1e-9)
            nearest[part.start + start : part.start + start + len(own)] = found
    return Scores(
        metric="identification",
        statistic="proportion",
        per_target=dict(zip(guesses.target_ids, nearest.tolist(), strict=True)),
    )


def attribute_accuracy(guesses: Guesses, truth: Truth, *, name: str = "labels") -> Scores:
    """Score 1 where the class of the row was guessed; ``name`` is its array in ``rows``."""
    classes = truth.get(ROWS, name)[_places(guesses, truth)]
    return Scores(
        metric="attribute accuracy",
        statistic="proportion",
        per_target={
            target: float(int(value) == int(true))
            for target, value, true in zip(guesses.target_ids, guesses.values, classes, strict=True)
        },
    )


def person_truth(rows: dict[str, int | None]) -> Truth:
    """Return the truth of attacks on persons: ``member``, and ``row`` () int64 of those who are.

    Parameters
    ----------
    rows : dict of str to int or None
        The row id of each person, by the name that the adversary has for it; None for a person
        that is not in the run.
    """
    return Truth(
        {
            person: {"member": np.array(row is not None)}
            | ({} if row is None else {"row": np.array(row, dtype=np.int64)})
            for person, row in rows.items()
        }
    )


def linked_within(guesses: Guesses, truth: Truth, *, ranks: int) -> Scores:
    """Score 1 where the person's row is among the first ``ranks`` that were named.

    Raises
    ------
    KeyError
        If the truth does not hold a person's row.
    ConfigurationError
        If fewer rows were named.
    """
    if any(len(value) < ranks for value in guesses.values):
        raise ConfigurationError(
            f"top-{ranks} needs {ranks} rows a person, got {min(map(len, guesses.values))}"
        )
    return Scores(
        metric=f"top-{ranks} re-identification",
        statistic="proportion",
        per_target={
            person: float(int(truth.get(person, "row")) in value[:ranks])
            for person, value in zip(guesses.target_ids, guesses.values, strict=True)
        },
    )


def singled_out(guesses: Guesses, truth: Truth) -> Scores:
    """Score 1 where the claimed row is the person's; no claim scores 0. Errors as above."""
    return Scores(
        metric="singled out",
        statistic="proportion",
        per_target={
            person: float(int(truth.get(person, "row")) == int(value))
            for person, value in zip(guesses.target_ids, guesses.values, strict=True)
        },
    )


def code_bijection(guesses: Guesses, truth: Truth, *, round: int = 1) -> Scores:
    """Score 1 where the guessed numbers are the true codes up to a relabelling.

    Targets are ``<party>/subspace-<m>``, values (n,) integers, rows in the order of their ids. The
    truth is ``codes/round-<t>`` of the party.
    """
    order = np.argsort(truth.get(ROWS, "ids"))
    per_target = {}
    for target, value in zip(guesses.target_ids, guesses.values, strict=True):
        party, _, subspace = target.rpartition("/subspace-")
        true = truth.get(party, f"codes/round-{round}")[order, int(subspace)]
        if value.shape != true.shape:
            raise InvalidDataError(f"{target}: {value.shape} codes for {true.shape} rows")
        pairs = len(np.unique(np.stack([value, true]).astype(np.int64), axis=1).T)
        same = pairs == len(np.unique(value)) == len(np.unique(true))
        per_target[target] = float(same)
    return Scores("codes recovered", "proportion", per_target)


def grid_accuracy(guesses: Guesses, truth: Truth) -> Scores:
    """Score columns by the fraction of values that are right up to a reflection and the unit.

    Targets are ``column-<c>``; values are steps above the least value, (n,), rows in the order of
    their ids. The true steps are the column's values, less the least, over their greatest common
    divisor.

    Raises
    ------
    KeyError
        If the truth does not hold a column.
    InvalidDataError
        If a column does not hold integers.
    """
    order = np.argsort(truth.get(ROWS, "ids"))
    held = {
        int(column): arrays["features"][:, i]
        for arrays in truth.targets.values()
        if "features" in arrays
        for i, column in enumerate(arrays["columns"])
    }
    per_target = {}
    for target, value in zip(guesses.target_ids, guesses.values, strict=True):
        column = int(target.removeprefix("column-"))
        if column not in held:
            raise KeyError(f"the truth holds no column {column}")
        exact = held[column][order].astype(np.float64)
        steps = np.round(exact - exact.min()).astype(np.int64)
        if not np.allclose(steps, exact - exact.min()):
            raise InvalidDataError(f"column {column} does not hold integers")
        steps //= max(1, int(np.gcd.reduce(steps)))
        per_target[target] = float(
            max((value == steps).mean(), (value == steps.max() - steps).mean())
        )
    return Scores("integers recovered", "mean", per_target)


def advantage(attack: Scores, baseline: Scores) -> Scores:
    """Score each target by how much leakier the attack's figure is than the baseline's.

    The estimate of its mean is the paired difference, whose interval is narrower than the two
    figures' own.

    Raises
    ------
    ConfigurationError
        If the two have different targets or metrics.
    """
    if attack.metric != baseline.metric or set(attack.per_target) != set(baseline.per_target):
        raise ConfigurationError(
            f"'{attack.metric}' and '{baseline.metric}' are not of the same targets and metric"
        )
    sign = 1.0 if attack.higher_is_leakier else -1.0
    return Scores(
        metric=f"advantage in {attack.metric}",
        statistic="mean",
        per_target={
            target: sign * (value - baseline.per_target[target])
            for target, value in attack.per_target.items()
        },
    )

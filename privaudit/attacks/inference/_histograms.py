"""Label histograms: the prior, and the fit of an update to updates of single classes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from privaudit.attacks.base import Knowledge
from privaudit.errors import UnmetRequirementsError

__all__ = ["fitted_shares", "known_labels", "population"]

Float64 = npt.NDArray[np.float64]

#: Eigenvalues of a Gram matrix below this share of the largest are noise.
_RANK_TOLERANCE = 1e-9


def known_labels(knowledge: Knowledge, *, attack: str) -> tuple[npt.NDArray[np.int64], int]:
    """Return the labels of the auxiliary records and the number of classes.

    Raises
    ------
    UnmetRequirementsError
        If the model or the auxiliary records are not declared.
    """
    if knowledge.model is None or knowledge.auxiliary is None or not len(knowledge.auxiliary):
        raise UnmetRequirementsError(
            f"attack '{attack}' is granted the model's architecture and auxiliary data, but the "
            "declared knowledge does not hold them"
        )
    return knowledge.auxiliary.labels, knowledge.model.classes


def population(labels: npt.NDArray[np.int64], classes: int) -> Float64:
    """Return the share of each class, which sum to one."""
    return np.bincount(labels, minlength=classes) / len(labels)


def fitted_shares(gram: Float64, products: Float64) -> Float64:
    r"""Return the shares with which known vectors make up another, from inner products alone.

    The :math:`h \ge 0` of least :math:`\|x - \sum_c h_c v_c\|^2 = \|x\|^2 - 2 h^T s + h^T G h`,
    divided by their sum; equal shares where all are zero.

    Parameters
    ----------
    gram : ndarray of float64, shape (k, k)
        :math:`G_{cd} = v_c^T v_d`.
    products : ndarray of float64, shape (k,)
        :math:`s_c = v_c^T x`.
    """
    from scipy.optimize import nnls

    values, vectors = np.linalg.eigh(gram)
    kept = values > _RANK_TOLERANCE * values.max()
    root = np.sqrt(values[kept])
    # h^T G h - 2 h^T s is the squared error of a least-squares problem, up to a constant.
    solution, _ = nnls(root[:, None] * vectors[:, kept].T, vectors[:, kept].T @ products / root)
    total = solution.sum()
    shares: Float64 = solution / total if total > 0 else np.full(len(gram), 1.0 / len(gram))
    return shares

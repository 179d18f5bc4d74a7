"""A network's parameters as one flat vector, and back.

The order is that of ``Module.parameters()``, each parameter row-major. Buffers, such as the
running mean and variance of batch normalisation, are not parameters: they are not in the vector,
are never sent or loaded by it, and stay with the module that gathered them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from privaudit.errors import ConfigurationError

if TYPE_CHECKING:
    from torch import nn

__all__ = ["flatten_parameters", "load_parameters"]


def flatten_parameters(model: nn.Module) -> npt.NDArray[np.float32]:
    """Return a copy of all parameters.

    Returns
    -------
    ndarray of float32, shape (parameters,)
    """
    from torch.nn.utils import parameters_to_vector

    vector: npt.NDArray[np.float32] = (
        parameters_to_vector(model.parameters()).detach().cpu().numpy().astype(np.float32)
    )
    return vector


def load_parameters(model: nn.Module, vector: npt.NDArray[Any]) -> None:
    """Copy a flat vector into a network's parameters, in place; values need not be finite.

    Parameters
    ----------
    model : torch.nn.Module
    vector : ndarray of floats, shape (parameters,)
        Cast to each parameter's type.

    Raises
    ------
    ConfigurationError
        If the vector has another shape than the network has parameters, or holds no floats.
    """
    import torch

    parameters = list(model.parameters())
    count = sum(parameter.numel() for parameter in parameters)
    if vector.shape != (count,) or vector.dtype.kind != "f":
        raise ConfigurationError(
            f"a parameter vector of this model must be floats of shape ({count},), got "
            f"{vector.dtype} of shape {vector.shape}"
        )
    # A copy, because torch cannot wrap arrays that are read-only or strided backwards.
    values = torch.from_numpy(np.array(vector, order="C"))
    with torch.no_grad():
        start = 0
        for parameter in parameters:
            part = values[start : start + parameter.numel()]
            parameter.copy_(part.view_as(parameter))
            start += parameter.numel()

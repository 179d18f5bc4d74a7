"""How many jobs fit into memory at once."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from privaudit.attacks.inversion._gradients import GradientEngine

__all__ = ["jobs_that_fit", "ran_out_of_memory"]

#: Copies of all activations that a forward and two backward passes hold: measured 5 to 7.
_COPIES = 8

#: Copies of an update that an objective and its gradient hold.
_UPDATES = 4

#: Bytes that a search may take on CPUs. Fixed, so that results do not depend on what else runs.
_BUDGET = 2**30

#: Share of an accelerator's memory that a search may take.
_SHARE = 0.5


def jobs_that_fit(engine: GradientEngine, wanted: int) -> int:
    """Return how many of the wanted jobs fit into the memory that a search may take, at least one.

    A job is one update's dummy records. Their activations are counted in one forward pass.
    """
    numbers = _COPIES * _activations(engine) + _UPDATES * engine.dimension
    width = torch.empty(0, dtype=engine.dtype).element_size()
    return max(1, min(wanted, int(_budget(engine.device) / (numbers * width))))


def ran_out_of_memory(error: RuntimeError) -> bool:
    """Say whether torch raised an error because memory ran out; it has no type for that on CPUs."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def _activations(engine: GradientEngine) -> int:
    """Numbers in the inputs, unfolded, and outputs of all layers for the records of one update."""
    counted = 0

    def count(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        nonlocal counted
        counted += output.numel()
        if isinstance(module, nn.Conv2d):
            # Every output position has its own patch of the input.
            counted += output.numel() // module.out_channels * module.weight[0].numel()

    leaves = [m for m in engine.model.modules() if not list(m.children())]
    hooks = [module.register_forward_hook(count) for module in leaves]
    try:
        with torch.no_grad():
            engine.model(
                torch.zeros(
                    (engine.records, *engine.input_shape), dtype=engine.dtype, device=engine.device
                )
            )
    finally:
        for hook in hooks:
            hook.remove()
    return counted


def _budget(device: torch.device) -> float:
    if device.type == "cuda":
        return _SHARE * torch.cuda.get_device_properties(device).total_memory
    return _BUDGET

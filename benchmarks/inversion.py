"""Gradient inversion: the factored engine beside a plain loop over images, in one process.

    python benchmarks/inversion.py [--rounds 5] [--images 8] [--iterations 150] [--json]

Both sides run the same attack on the paper's CNN (582,026 parameters, 28x28 digits): cosine
matching plus total variation, one Adam step an evaluation. An *evaluation* is one dummy image with
its double backward pass and its share of the step. The peer is what published code does: one image
at a time, torch's own gradients, products summed over parameter tensors. ``breaching`` is named as
peer if it can be imported; it is never installed here, and only its presence is reported.

Engine and tuning are kept apart. ``ratio`` is evaluations per second, ours over the peer's, of the
same attack with R = 16 images together; ``psnr_ours`` and ``psnr_peer`` are of the same number of
iterations from the same starts, and should agree. The gain of our settings over those of the
literature (signed steps, stronger total variation), in the same engine, is in ``tuning``.

Rounds take each side in turn, so that what else the machine does meets both; medians are over
rounds. CPU-seconds stand beside wall time because machines are shared.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from privaudit.attacks.inversion._gradients import GradientEngine
from privaudit.attacks.inversion._objectives import cosine, total_variation
from privaudit.attacks.inversion._optimise import AdamSettings, adam
from privaudit.attacks.inversion._priors import Pixels
from privaudit.attacks.inversion._search import engine_for
from privaudit.attacks.inversion._targets import Targets
from privaudit.datasets import load_dataset
from privaudit.models import ModelSpec, build, flatten_parameters, load_parameters

SPEC = ModelSpec("cnn", (1, 28, 28), 10)
TOGETHER = 16
OURS = AdamSettings(iterations=150, learning_rate=0.1, total_variation=0.003)
#: Geiping et al. 2020: signed gradients, total variation 0.1 to 0.2, at our budget.
LITERATURE = AdamSettings(iterations=150, learning_rate=0.1, total_variation=0.2, signed=True)


@dataclass(frozen=True)
class Case:
    """Images, labels and their gradients, and where the search for them starts."""

    parameters: np.ndarray[Any, np.dtype[np.float32]]
    images: Tensor
    labels: Tensor
    gradients: Tensor
    starts: Tensor


def make_case(count: int, *, seed: int) -> Case:
    data = load_dataset("digits28").train
    chosen = data.take(np.random.default_rng(seed).permutation(len(data))[:count])
    parameters = flatten_parameters(build(SPEC, seed=seed))
    engine = engine_for(SPEC, parameters, batch_norm="train", device="cpu")
    images, labels = torch.from_numpy(chosen.images), torch.from_numpy(chosen.labels)
    gradients = engine.gradients(images, functional.one_hot(labels, 10).float()).flat().detach()
    starts = torch.rand(images.shape, generator=torch.Generator().manual_seed(seed))
    return Case(parameters, images, labels, gradients, starts)


def ours(
    case: Case, engine: GradientEngine, settings: AdamSettings, targets: Targets | None = None
) -> Tensor:
    known = functional.one_hot(case.labels, 10).float()
    found = adam(
        cosine(targets or engine.targets(case.gradients)),
        engine,
        Pixels(),
        rows=torch.arange(len(case.images)),
        first=case.starts[:, None],
        labels=known[:, None],
        settings=settings,
    )
    return found.images[:, 0]


def plain_loop(case: Case, model: nn.Module, settings: AdamSettings) -> Tensor:
    """Attack one image after the other with torch's own gradients."""
    parameters = list(model.parameters())
    sizes = [p.numel() for p in parameters]
    results = []
    for image, label, flat in zip(case.starts, case.labels, case.gradients, strict=True):
        wanted = [
            part.reshape(p.shape) for part, p in zip(flat.split(sizes), parameters, strict=True)
        ]
        norm = flat.norm()
        dummy = image[None].clone().requires_grad_(True)
        optimiser = torch.optim.Adam([dummy], lr=settings.learning_rate)
        best, lowest = dummy.detach().clone(), math.inf
        for step in range(settings.iterations + 1):
            loss = functional.cross_entropy(model(dummy), label[None])
            gradients = torch.autograd.grad(loss, parameters, create_graph=True)
            zero = dummy.new_zeros(())
            dot = sum(((g * w).sum() for g, w in zip(gradients, wanted, strict=True)), zero)
            squared = sum((g.square().sum() for g in gradients), zero)
            matching = 1 - dot / (squared.sqrt() * norm)
            total = matching + settings.total_variation * total_variation(dummy).sum()
            if total.item() < lowest:
                best, lowest = dummy.detach().clone(), total.item()
            if step == settings.iterations:
                break
            (slope,) = torch.autograd.grad(total, dummy)
            dummy.grad = slope.sign() if settings.signed else slope
            optimiser.param_groups[0]["lr"] = settings.learning_rate * (
                0.5 * (1 + math.cos(math.pi * step / settings.iterations))
            )
            optimiser.step()
            with torch.no_grad():
                dummy.clamp_(0, 1)
        results.append(best[0])
    return torch.stack(results)


def decibels(found: Tensor, case: Case) -> float:
    error = (found.clamp(0, 1) - case.images).square().mean((1, 2, 3)).clamp_min(1e-12)
    return float((-10 * error.log10()).median())


def timed(run: Callable[[], object]) -> tuple[float, float]:
    """Return wall and CPU seconds of this process, all threads."""
    cpu, wall = time.process_time(), time.perf_counter()
    run()
    return time.perf_counter() - wall, time.process_time() - cpu


def speed(threads: int, *, rounds: int, seed: int) -> dict[str, float]:
    """Time both sides in turn; evaluations a second are medians over rounds."""
    torch.set_num_threads(threads)
    case = make_case(TOGETHER, seed=seed)
    engine = engine_for(SPEC, case.parameters, batch_norm="train", device="cpu")
    model = build(SPEC, seed=0)
    load_parameters(model, case.parameters)
    # Prepared once an attack of hundreds of steps, hence not in a round of a few.
    targets = engine.targets(case.gradients)
    ours_settings = AdamSettings(14, 0.1, 0.003)
    peer_settings = AdamSettings(2, 0.1, 0.003)
    ours(case, engine, AdamSettings(1, 0.1, 0.003))
    plain_loop(case, model, AdamSettings(1, 0.1, 0.003))
    made = TOGETHER * (ours_settings.iterations + 1), TOGETHER * (peer_settings.iterations + 1)
    rows = []
    for _ in range(rounds):
        wall, cpu = timed(lambda: ours(case, engine, ours_settings, targets))
        peer_wall, peer_cpu = timed(lambda: plain_loop(case, model, peer_settings))
        rows.append((made[0] / wall, made[0] / cpu, made[1] / peer_wall, made[1] / peer_cpu))
    columns = [statistics.median(column) for column in zip(*rows, strict=True)]
    ratios = [row[0] / row[2] for row in rows]
    return {
        "ours_per_second": columns[0],
        "ours_per_cpu_second": columns[1],
        "peer_per_second": columns[2],
        "peer_per_cpu_second": columns[3],
        "ratio": statistics.median(ratios),
        "ratio_low": min(ratios),
        "ratio_high": max(ratios),
        "ratio_cpu": statistics.median(row[1] / row[3] for row in rows),
    }


def quality(images: int, iterations: int, *, seed: int) -> dict[str, float]:
    torch.set_num_threads(1)
    case = make_case(images, seed=seed)
    engine = engine_for(SPEC, case.parameters, batch_norm="train", device="cpu")
    model = build(SPEC, seed=0)
    load_parameters(model, case.parameters)
    same = AdamSettings(iterations, OURS.learning_rate, OURS.total_variation)
    signed = AdamSettings(iterations, LITERATURE.learning_rate, LITERATURE.total_variation, True)
    found: dict[str, Tensor] = {}
    seconds = {
        "ours": timed(lambda: found.update(ours=ours(case, engine, same))),
        "peer": timed(lambda: found.update(peer=plain_loop(case, model, same))),
        "literature": timed(lambda: found.update(literature=ours(case, engine, signed))),
    }
    return {
        **{f"psnr_{name}": decibels(images, case) for name, images in found.items()},
        **{f"wall_seconds_{name}": wall for name, (wall, _) in seconds.items()},
        **{f"cpu_seconds_{name}": cpu for name, (_, cpu) in seconds.items()},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--images", type=int, default=8)
    parser.add_argument("--iterations", type=int, default=150)
    parser.add_argument("--seed", type=int, default=20_261)
    parser.add_argument("--json", action="store_true", help="print JSON, last")
    arguments = parser.parse_args()
    peer = "plain loop over images"
    if find_spec("breaching") is None:
        print("breaching cannot be imported here; the peer is a plain loop over images")
    else:
        print("breaching is installed; this benchmark times a plain loop over images all the same")
    speeds = {}
    for threads in (1, 2):
        row = speed(threads, rounds=arguments.rounds, seed=arguments.seed)
        speeds[threads] = row
        print(
            f"{threads} thread(s): ours {row['ours_per_second']:.0f}, peer "
            f"{row['peer_per_second']:.0f} evaluations/s; ratio {row['ratio']:.2f} "
            f"[{row['ratio_low']:.2f}, {row['ratio_high']:.2f}], "
            f"by CPU time {row['ratio_cpu']:.2f}",
            flush=True,
        )
    measured = quality(arguments.images, arguments.iterations, seed=arguments.seed + 1)
    gain = measured["psnr_ours"] - measured["psnr_literature"]
    print(
        f"same attack, {arguments.iterations} iterations, {arguments.images} images: median "
        f"{measured['psnr_ours']:.1f} dB ours, {measured['psnr_peer']:.1f} dB peer\n"
        f"CPU seconds: {measured['cpu_seconds_ours']:.1f} ours, "
        f"{measured['cpu_seconds_peer']:.1f} peer\n"
        f"tuning: {gain:+.1f} dB over the literature's settings in the same engine"
    )
    if arguments.json:
        result = {
            "ratio": speeds[1]["ratio"],
            "ratio_two_threads": speeds[2]["ratio"],
            "psnr_ours": measured["psnr_ours"],
            "psnr_peer": measured["psnr_peer"],
            "tuning": {"psnr_literature": measured["psnr_literature"], "gain_db": gain},
            "peer": peer,
            "breaching": find_spec("breaching") is not None,
            "speed": {str(threads): row for threads, row in speeds.items()},
            "quality": measured,
            "together": TOGETHER,
            "torch": torch.__version__,
            "processor": platform.machine(),
        }
        print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The tables and images of the sample report."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

from privaudit.reports.figures import gallery_png
from privaudit.reports.model import (
    BudgetRow,
    ExposureRow,
    Gallery,
    GalleryRow,
    Series,
    Utility,
)

USERS = tuple(f"user-{i}" for i in range(20))


def budgets() -> tuple[BudgetRow, ...]:
    d = 580_571
    values = {4: (1.975, 2.235, 4.73), 10: (1.18, 1.43, 4.73), 20: (0.806, 1.01, 4.73)}
    rows = []
    for size, (lower, upper, local) in values.items():
        common = {
            "cluster_size": size,
            "honest_users": size,
            "clusters": 20 // size,
            "epsilon0": 1.0,
            "delta": 1e-5,
            "dimension": d,
            "note": "",
        }
        noised = "the less important part of the update, given all else"
        for rounds, factor in ((1, 1.0), (100, 17.0)):
            rows.append(
                BudgetRow(
                    **common,
                    rounds=rounds,
                    quantity=noised,
                    lower=lower if rounds == 1 else None,
                    upper=upper * factor,
                    theorem="shuffled joint Laplace, Rényi composition",
                    status="proven, grid-certified",
                    domain_ok=True,
                    role="bracket",
                )
            )
        rows += [
            BudgetRow(
                **common,
                rounds=1,
                quantity="the same, to the clustering server",
                lower=None,
                upper=local,
                theorem="joint Laplace, no shuffling",
                status="proven",
                domain_ok=True,
                role="local",
            ),
            BudgetRow(
                **common,
                rounds=1,
                quantity="the same, as the paper states it",
                lower=None,
                upper=272_800.0,
                theorem="Theorem 2 of the paper",
                status="evaluated, not proven here",
                domain_ok=False,
                role="paper",
            ),
            BudgetRow(
                **common,
                rounds=1,
                quantity="one coordinate after shuffling",
                lower=0.99,
                upper=1.0,
                theorem="exact privacy blanket",
                status="proven",
                domain_ok=True,
                role="coordinate",
            ),
            BudgetRow(
                **{**common, "note": "top-k values and index sequences carry no noise"},
                rounds=1,
                quantity="everything one user releases",
                lower=float("inf"),
                upper=float("inf"),
                theorem="no randomisation",
                status="proven",
                domain_ok=True,
                role="user",
            ),
        ]
    return tuple(rows)


def exposure() -> tuple[ExposureRow, ...]:
    table = (
        ("the aggregation server", 1, 0.0, 0.0, 1.0, 0.0, 1455, 4, 0.0),
        ("the clustering server", 1, 0.0, 0.0, 1.0, 0.9975, 0, 1, 1.0),
        ("one user", 1, 0.0, 0.0, 1.0, 0.0, 0, 20, 0.0),
        ("the aggregation server with one user", 2, 0.0025, 0.0025, 1.0, 0.0, 0, 3, 0.0),
        ("both servers", 2, 0.0025, 0.0025, 1.0, 0.9975, 0, 1, 1.0),
        ("the clustering server with one user", 2, 0.0, 0.0, 1.0, 0.9975, 0, 1, 1.0),
        ("the aggregation server with three users", 4, 0.0025, 0.0025, 1.0, 0.9975, 0, 1, 0.99),
        ("both servers with nineteen users", 21, 0.0025, 0.0025, 1.0, 0.9975, 0, 1, 1.0),
    )
    return tuple(
        ExposureRow(
            coalition_label=label,
            size=size,
            targets=20 - max(0, size - 1),
            exact_fraction=exact,
            worst_exact_fraction=worst,
            exact_verified=verified,
            noised_fraction=noised,
            unplaced_values=unplaced,
            anonymity_minimum=anonymity,
            anonymity_median=float(anonymity),
            attributed_verified=attributed,
            note="" if size < 21 else "the other users' reports are subtracted",
        )
        for label, size, exact, worst, verified, noised, unplaced, anonymity, attributed in table
    )


def gallery() -> Gallery:
    images = load_digits().images[:20].astype(float)[:, None] / 16
    rng = np.random.default_rng(0)

    def row(label: str, noise: float, *, failed: tuple[int, ...] = ()) -> GalleryRow:
        mixed = (1 - noise) * images + noise * rng.random(images.shape)
        errors = ((mixed - images) ** 2).mean(axis=(1, 2, 3))
        return GalleryRow(
            label=label,
            pngs=tuple("" if i in failed else gallery_png(x) for i, x in enumerate(mixed)),
            captions=tuple(
                "failed" if i in failed else f"{-10 * np.log10(e):.1f} dB" if e else user
                for i, (e, user) in enumerate(zip(errors, USERS, strict=True))
            ),
        )

    return Gallery(
        id="reconstructions",
        title="Reconstructions from one round",
        caption="The top row holds the users' images, each further row what one coalition made.",
        targets=row("Target", 0.0),
        rows=(
            row("The aggregation server", 1.0),
            row("The clustering server", 0.85),
            row("The aggregation server with one user", 0.25),
            row("Both servers", 0.08, failed=(4, 11, 12)),
        ),
    )


def utilities() -> tuple[Utility, ...]:
    rounds = tuple(float(r) for r in range(1, 11))
    steady = tuple(float(0.97 - 0.5 * 0.6**r) for r in rounds)
    diverged = (0.19, 0.11, *([float("nan")] * 8))
    return (
        Utility(
            quantity="accuracy",
            x_label="round",
            series=(
                Series(name="FedAvg", x=rounds, y=steady),
                Series(name="PA-CFL, ε₀ = 10", x=rounds, y=tuple(y - 0.05 for y in steady)),
                Series(name="PA-CFL, ε₀ = 1", x=rounds, y=diverged),
            ),
        ),
    )

"""What the specification's prototypes of the attacks reached, and what it accepts, row by row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Judgement = Literal["accept", "match", "control", "report"]


@dataclass(frozen=True, slots=True)
class Expectation:
    """One row.

    Attributes
    ----------
    key : str
        Of the sample.
    condition : str
        In words.
    measured : mapping of str to str
        What the specification measured, by data set (``"digits28"``, ``"mnist"``,
        ``"fashion-mnist"``).
    judgement : {"accept", "match", "control", "report"}
    threshold : mapping of str to float
        What is accepted or to be matched, by data set; without one the row is only reported.
    """

    key: str
    condition: str
    measured: Mapping[str, str]
    judgement: Judgement = "report"
    threshold: Mapping[str, float] | None = None


BOTH = ("digits28", "mnist")


def expected(
    key: str,
    condition: str,
    *,
    mnist: str = "–",
    digits: str = "–",
    fashion: str = "–",
    accept: float | None = None,
    accept_digits: float | None = None,
    accept_mnist: float | None = None,
    match_digits: float | None = None,
    match_mnist: float | None = None,
    accept_fashion: float | None = None,
    match_fashion: float | None = None,
    control: float | None = None,
) -> Expectation:
    judgement: Judgement = "report"
    thresholds: dict[str, float] = {}
    if control is not None:
        judgement, thresholds = "control", dict.fromkeys((*BOTH, "fashion-mnist"), control)
    for name, value in (
        ("digits28", match_digits),
        ("mnist", match_mnist),
        ("fashion-mnist", match_fashion),
    ):
        if value is not None:
            judgement = "match"
            thresholds[name] = value
    for names, value in (
        (BOTH, accept),
        (("digits28",), accept_digits),
        (("mnist",), accept_mnist),
        (("fashion-mnist",), accept_fashion),
    ):
        if value is not None:
            judgement = "accept"
            thresholds |= dict.fromkeys(names, value)
    return Expectation(
        key,
        condition,
        {"digits28": digits, "mnist": mnist, "fashion-mnist": fashion},
        judgement,
        thresholds or None,
    )


_CONTROLLED = {
    "random ranks": "ranks alone; a random permutation",
    "ranks of another": "ranks alone; another user's",
    "ranks, other parameters": "ranks alone; parameters of another model",
    "top-k of another": "top-k; another user's update",
    "top-k, other parameters": "top-k; parameters of another model",
    "whole of another": "whole gradient; another user's",
    "whole, other parameters": "whole gradient; parameters of another model",
    "analytic of another": "analytic attack; another user's",
    "analytic, other parameters": "analytic attack; parameters of another model",
}
_BLIND = "AS alone, untrained"

EXPECTATIONS: tuple[Expectation, ...] = (
    expected("mean image: PSNR", "baseline: mean image, PSNR (dB)", mnist="12.3", fashion="10.4"),
    expected("mean image: SSIM", "… SSIM", mnist="0.13"),
    expected(
        "class mean: PSNR",
        "baseline: mean of the true class, PSNR",
        mnist="12.9",
        digits="17.3",
        fashion="12.3",
    ),
    expected("class mean: SSIM", "… SSIM", mnist="0.24", digits="0.62–0.65"),
    expected("nearest auxiliary image: PSNR", "baseline: nearest auxiliary image, PSNR"),
    expected(
        "whole: PSNR",
        "whole gradient, PSNR",
        mnist="51.9",
        digits="44.7",
        fashion="29.2",
        accept_digits=38,
        accept_mnist=42,
        accept_fashion=24,
    ),
    expected(
        "whole: least PSNR",
        "… worst image",
        mnist="33.4",
        digits="30.7",
        fashion="13.4",
        accept_digits=25,
    ),
    expected("whole: labels", "… labels", mnist="20 of 20", digits="20 of 20", accept=1.0),
    expected("whole: identified", "… identified among the pool"),
    expected(
        "whole: CPU seconds", "… CPU seconds a set", mnist="12–16", digits="15.5", accept_digits=40
    ),
    expected(
        "analytic: PSNR",
        "… analytic attack, PSNR",
        accept_digits=38,
        accept_mnist=42,
        accept_fashion=24,
    ),
    expected("analytic: least PSNR", "… analytic attack, worst image", accept_digits=25),
    expected("analytic: identified", "… analytic attack, identified"),
    expected("analytic: CPU seconds", "… analytic attack, CPU seconds a set", accept_digits=40),
    expected(
        "top-k: PSNR",
        "top-k at true coordinates, PSNR",
        mnist="20.3",
        fashion="17.2",
        match_mnist=20.3,
        match_fashion=17.2,
    ),
    expected("top-k: SSIM", "… SSIM", mnist="0.82", match_mnist=0.82),
    expected(
        "top-k: identified",
        "… identified",
        mnist="1.00",
        fashion="0.85",
        match_mnist=1.0,
        match_fashion=0.85,
    ),
    expected(
        "top-k, as specified: PSNR",
        "… from the class mean, no fitted prior, PSNR",
        mnist="20.3",
        digits="23.4",
        fashion="14.9",
        accept_digits=20,
        match_mnist=20.3,
        match_fashion=14.9,
    ),
    expected("top-k, as specified: PSNR over class mean", "… above the class mean (paired)"),
    expected(
        "masked over zero-filled: PSNR",
        "… from noise: masked above zero-filled (paired)",
        digits="7.5",
        accept_digits=4,
    ),
    expected(
        "top-k 1 %, from noise: PSNR",
        "… from noise, k = 1 %, PSNR",
        digits="29.5",
        accept_digits=25,
    ),
    expected(
        "top-k, PCA: PSNR",
        "… PCA prior, not refined, PSNR",
        mnist="19.9",
        fashion="17.2",
        match_mnist=19.9,
        match_fashion=17.2,
    ),
    expected("AS + user: PSNR", "AS and one user (values at π^g), PSNR"),
    expected("AS + user: identified", "… identified"),
    expected(
        "ranks: PSNR",
        "MS, ranks alone, PSNR",
        mnist="19.1",
        fashion="15.5",
        match_mnist=19.1,
        match_fashion=15.5,
    ),
    expected(
        "ranks: SSIM",
        "… SSIM",
        mnist="0.78",
        fashion="0.57",
        match_mnist=0.78,
        match_fashion=0.57,
    ),
    expected(
        "ranks: identified",
        "… identified",
        mnist="0.95",
        fashion="0.55–0.65",
        accept_mnist=0.75,
        match_fashion=0.65,
    ),
    expected("ranks: labels", "… labels", mnist="20 of 20", digits="1.0", accept=0.98),
    expected(
        "ranks, as specified: PSNR",
        "… from the class mean, no fitted prior, PSNR",
        digits="24.0",
        accept_digits=20,
    ),
    expected(
        "ranks, as specified: PSNR over class mean",
        "… above the class mean (paired)",
        digits="6.7",
        accept_digits=2,
    ),
    expected(
        "ranks, as specified: SSIM",
        "… SSIM, from the class mean",
        mnist="0.78",
        fashion="0.57",
        match_mnist=0.78,
        match_fashion=0.57,
    ),
    expected(
        "ranks, as specified: identified",
        "… identified, from the class mean",
        mnist="0.95",
        fashion="0.55–0.65",
        match_mnist=0.95,
        match_fashion=0.55,
    ),
    expected(
        "ranks, PCA: PSNR",
        "… PCA prior, as the prototype, not refined, PSNR",
        mnist="19.1",
        fashion="15.5",
        match_mnist=19.1,
        match_fashion=15.5,
    ),
    expected(
        "ranks, PCA: SSIM",
        "… PCA prior, SSIM",
        mnist="0.78",
        fashion="0.57",
        match_mnist=0.78,
        match_fashion=0.57,
    ),
    expected(
        "ranks, PCA: identified",
        "… PCA prior, identified",
        mnist="0.95",
        fashion="0.55–0.65",
        match_mnist=0.95,
        match_fashion=0.55,
    ),
    expected(
        "unit magnitudes: PSNR",
        "unit magnitudes at π, zeros elsewhere, PSNR (must stay low)",
        mnist="5.5",
        digits="6.2",
        control=10,
    ),
    expected("unit magnitudes: identified", "… identified", mnist="0", control=0.05),
    expected("later, accuracy", "after 300 steps: accuracy of the model", mnist="0.97"),
    expected("later, mean image: PSNR", "… mean image, PSNR", mnist="12.3"),
    expected("later, class mean: PSNR", "… class mean, PSNR", mnist="12.9"),
    expected("later, whole: PSNR", "… whole gradient, PSNR", mnist="28.1", match_mnist=28.1),
    expected("later, analytic: PSNR", "… analytic attack, PSNR", mnist="28.1", match_mnist=28.1),
    expected("later, top-k: PSNR", "… top-k, PSNR"),
    expected("later, top-k, PCA: PSNR", "… top-k, PCA prior, PSNR", mnist="17.0", match_mnist=17.0),
    expected("later, ranks: PSNR", "… ranks, PSNR"),
    expected("later, ranks, PCA: PSNR", "… ranks, PCA prior, PSNR", mnist="17.0", match_mnist=17.0),
    expected("later, ranks, PCA: SSIM", "… ranks, PCA prior, SSIM", mnist="0.63", match_mnist=0.63),
    expected(
        "later, ranks, PCA: identified",
        "… ranks, PCA prior, identified",
        mnist="0.90",
        match_mnist=0.9,
    ),
    expected("later, ranks: identified", "… ranks, identified"),
    expected("later, ranks: labels", "… labels", mnist="0.80–0.97", accept_mnist=0.75),
    expected(
        "batch 4: PSNR", "4 records, paired by assignment, PSNR", mnist="31–35", accept_mnist=28
    ),
    expected("batch 4, naive order: PSNR", "… in naive order", mnist="8–15"),
    expected(
        "batch 4: PSNR over naive order",
        "… paired above naive (paired)",
        mnist="≥ 5",
        accept_mnist=5,
    ),
    expected("analytic, batch 4: PSNR", "… analytic attack, PSNR"),
    expected("batch 8: PSNR", "8 records, PSNR", mnist="15–16 (fails)", match_mnist=16),
    expected("batch 8: identified", "… identified"),
    expected("analytic, batch 8: PSNR", "… analytic attack, PSNR"),
    expected("analytic, batch 8: identified", "… analytic attack, identified"),
    expected("batch 16: PSNR", "16 records, PSNR", mnist="13 (fails)", match_mnist=13),
    expected("batch 16: identified", "… identified"),
    expected("analytic, batch 16: PSNR", "… analytic attack, PSNR"),
    expected("analytic, batch 16: identified", "… analytic attack, identified"),
    *(
        expected(
            f"DLG, {key} parameters: above 30 dB",
            f"DLG, LeNet, {words}: share above 30 dB",
            digits=digits,
            accept_digits=accept,
        )
        for key, words, digits, accept in (
            ("wide", "U(−0.5, 0.5)", "12 of 12", 10 / 12),
            ("usual", "torch's default", "10 of 12", 7 / 12),
        )
    ),
    expected(
        "DLG, wide parameters: CPU seconds an image",
        "… CPU seconds an image",
        digits="2.0",
        accept_digits=5,
    ),
    expected("labels, 1: right", "MS, labels, 1 record", mnist="1.000", digits="1.0", accept=0.98),
    expected("labels, 1: right by the prior", "… by the prior", mnist="0.17"),
    expected(
        "labels, 4: exact",
        "MS, labels, 4 records: exact histogram",
        mnist="0.993",
        digits="1.0",
        accept=0.95,
    ),
    expected(
        "labels, 16: overlap",
        "MS, labels, 16 records: overlap",
        mnist="0.912",
        digits="0.921",
        accept=0.85,
    ),
    expected("labels, 16: overlap by the prior", "… by the prior", mnist="0.68", digits="0.69"),
    expected(
        "labels, 64: overlap over the prior",
        "MS, labels, 64 records: overlap above the prior's",
        mnist="0.11",
        digits="0.10",
        accept=0.05,
    ),
    expected(
        "labels, local training: distance",
        "MS, labels, 3 local epochs of 256 records, α = 0.1: distance",
        mnist="0.114",
        accept=0.25,
    ),
    expected("labels, local training: distance by the prior", "… by the prior", mnist="0.716"),
    expected("labels, local training: dominant", "… dominant label", mnist="1.00", accept=0.9),
    expected(
        "later, labels, 1: right",
        "after 300 steps, labels, 1 record",
        mnist="0.953",
        accept_mnist=0.75,
    ),
    expected("later, labels, 4: overlap", "… 4 records: overlap", mnist="0.502", match_mnist=0.502),
    expected("later, labels, 4: overlap by the prior", "… by the prior", mnist="0.36"),
    expected("later, labels, 16: overlap", "… 16 records: overlap", mnist="0.718 (chance)"),
    expected("later, labels, 16: overlap by the prior", "… by the prior", mnist="0.71"),
    expected("later, labels, 64: overlap", "… 64 records: overlap", mnist="0.849 (chance)"),
    expected("later, labels, 64: overlap by the prior", "… by the prior", mnist="0.85"),
    expected(
        "later, labels, local training: distance",
        "… 3 local epochs, α = 0.1: distance",
        mnist="0.383",
        match_mnist=0.383,
    ),
    expected(
        "later, labels, local training: distance by the prior", "… by the prior", mnist="0.717"
    ),
    expected(
        "blind, 0 steps: at least 60 % placed",
        f"{_BLIND}: federations with ≥ 60 % placed",
        mnist="6 of 7",
        accept=5 / 7,
    ),
    expected("blind, 0 steps: coordinates", "… coordinates placed, mean", mnist="0.28–0.99"),
    expected("blind, 0 steps: distance of labels", "… distance of labels", mnist="0.01–0.28"),
    expected(
        "blind, 0 steps: distance of labels by the prior", "… by the prior", mnist="0.44–0.80"
    ),
    expected(
        "blind, 0 steps: correlation at least 0.98",
        "… federations whose unnamed labels correlate ≥ 0.98",
        mnist="6 of 7",
        accept=5 / 7,
    ),
    expected(
        "blind, 20 steps: coordinates",
        "… after 20 steps: coordinates",
        mnist="0.643",
        match_mnist=0.643,
    ),
    expected(
        "blind, 20 steps, from the first round: coordinates", "… after 20 steps, first round used"
    ),
    expected(
        "blind, 100 steps: coordinates",
        "… after 100 steps: coordinates",
        mnist="0.173 (fails)",
        match_mnist=0.173,
    ),
    expected(
        "blind, 100 steps, from the first round: coordinates", "… after 100 steps, first round used"
    ),
    *(
        expected(
            f"noise, {rounds} rounds, {name}: labels",
            f"noised remainder, ε₀ = 1, {rounds} round{'s' * (rounds > 1)}, {name}: labels",
            mnist=f"{value:.2f}",
            match_mnist=value,
            match_digits=value,
        )
        for rounds, value in ((1, 0.18), (50, 0.8), (200, 1.0))
        for name in ("laplace", "linear")
    ),
    *(
        row
        for key, words in _CONTROLLED.items()
        for row in (
            expected(
                f"{key}: PSNR over class mean",
                f"control: {words}: PSNR above class mean",
                mnist="≤ 1",
                digits="≤ 1",
                control=1.0,
            ),
            expected(
                f"{key}: identified", "… identified", mnist="≤ 0.05", digits="≤ 0.05", control=0.05
            ),
        )
    ),
    *(
        expected(
            f"{key}: labels",
            f"control: {_CONTROLLED[key]}: labels",
            mnist="chance",
            digits="chance",
            control=0.1,
        )
        for key in ("random ranks", "ranks of another")
    ),
)

"""Attacks by the names under which the literature knows them: a registered attack with options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from privaudit import plugins
from privaudit.configuration import constructed
from privaudit.errors import PluginError, did_you_mean

__all__ = ["PRESETS", "Preset", "configured_attack", "resolve"]


@dataclass(frozen=True, slots=True)
class Preset:
    """A name of the literature, and what it stands for here.

    Attributes
    ----------
    attack : str
        The registered attack.
    options : mapping
        Its options; those given beside the preset come first.
    summary : str
        What is done, and where it differs from the source.
    source : str
    """

    attack: str
    options: Mapping[str, Any]
    summary: str
    source: str


def _preset(attack: str, summary: str, source: str, **options: Any) -> Preset:
    return Preset(attack, MappingProxyType(options), summary, source)


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "deep-leakage": _preset(
            "inversion/dlg",
            "Least squares on the whole gradient, labels searched for with the images.",
            "Zhu, Liu, Han: Deep Leakage from Gradients (NeurIPS 2019)",
            labels="optimised",
        ),
        "idlg": _preset(
            "inversion/dlg",
            "Least squares on the whole gradient, labels read off the last layer's signs.",
            "Zhao, Mopuri, Bilen: iDLG (2020)",
            labels="idlg",
        ),
        "inverting-gradients": _preset(
            "inversion/cosine",
            "Cosine matching with total variation, steps along the sign, pixels in their box.",
            "Geiping, Bauermeister, Dröge, Moeller: Inverting Gradients (NeurIPS 2020)",
            signed=True,
            learning_rate=0.1,
            iterations=600,
        ),
        "gradinversion": _preset(
            "inversion/cosine",
            "Cosine matching with priors on batch statistics and on the agreement of restarts; the "
            "source matches by squared distance, adds noise, and registers images.",
            "Yin, Mallya, Vahdat, Alvarez, Kautz, Molchanov: See through Gradients (CVPR 2021)",
            batch_statistics=0.1,
            group_consistency=0.01,
            labels="idlg",
            learning_rate=0.1,
            total_variation=0.001,
        ),
        "inverting-updates": _preset(
            "inversion/local-steps",
            "Cosine matching of an update of several local steps with a simulated one.",
            "Geiping, Bauermeister, Dröge, Moeller: Inverting Gradients (NeurIPS 2020), section 6",
        ),
        "first-layer": _preset(
            "inversion/analytic",
            "Inputs of the first fully connected layer, in closed form.",
            "Phong, Aono, Hayashi, Wang, Moriai (IEEE TIFS 2018); "
            "SPEAR: Dimitrov, Baader, Müller, Vechev (NeurIPS 2024)",
        ),
        "as-permutation": _preset(
            "inversion/blind-coordinates",
            "The aggregation server alone: which value belongs to which coordinate.",
            "PA-CFL, proposition 2 (the claim that is tested)",
        ),
        "as-images": _preset(
            "inversion/blind-top-k",
            "The aggregation server alone: coordinates, then images from the values there.",
            "PA-CFL, figure 10(b) (the claim that is tested)",
        ),
        "as-with-user": _preset(
            "inversion/top-k",
            "The aggregation server and one user, who knows the sequence.",
            "PA-CFL, figure 10(a) (the claim that is tested)",
        ),
        "ms-profile": _preset(
            "inversion/rank-profile",
            "The management server: images from ranks, magnitudes from auxiliary data.",
            "PA-CFL, figure 10(c) (the claim that is tested)",
        ),
        "loss-threshold": _preset(
            "inference/membership",
            "Membership by the loss after a user's training.",
            "Yeom, Giacomelli, Fredrikson, Jha (CSF 2018)",
            method="loss",
        ),
        "lira": _preset(
            "inference/membership",
            "Membership by likelihood ratios under shadow users.",
            "Carlini, Chien, Nasr, Song, Terzis, Tramèr (S&P 2022)",
            method="likelihood-ratio",
        ),
        "property-regression": _preset(
            "inference/property",
            "The share of records with an attribute, by regression on simulated updates.",
            "After Melis, Song, De Cristofaro, Shmatikov (S&P 2019)",
        ),
    }
)


def resolve(name: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the registered attack and the options that a name and options stand for.

    A registered name comes first, then a preset, then a registered name without its family.

    Raises
    ------
    PluginError
        If no attack has the name (with a suggestion), or several end in it.
    """
    if name not in plugins.available("attack") and name in PRESETS:
        preset = PRESETS[name]
        return preset.attack, {**preset.options, **options}
    whole = plugins.whole_name("attack", name)
    if whole not in plugins.available("attack"):
        known = [*plugins.available("attack"), *PRESETS]
        raise PluginError(
            f"no attack is named '{name}'; privaudit list attacks and privaudit list presets show "
            f"them.{did_you_mean(name, known)}"
        )
    return whole, dict(options)


def configured_attack(name: str, options: Mapping[str, Any]) -> Any:
    """Return the attack that a name and options stand for; see :func:`resolve`.

    Raises
    ------
    PluginError, ConfigurationError
        If the attack or an option is unknown.
    """
    name, given = resolve(name, options)
    return constructed(plugins.load("attack", name), given, where=f"attack '{name}'")

"""Wrong keys and values are named, with what is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from privaudit import plugins
from privaudit.attacks.inversion import SortedValueMatching
from privaudit.campaigns.pa_cfl.config import AuditConfig
from privaudit.campaigns.simulation import SimulationConfig
from privaudit.configuration import constructed, parse_assignment, read_toml, validated
from privaudit.errors import ConfigurationError
from privaudit.protocols.pa_cfl import PACFLConfig


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    users: int = Field(3, ge=2)


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid")
    seed: int = 0
    mode: Literal["fast", "slow"] = "fast"
    inner: Inner = Inner()


def refusal(values: dict[str, Any], kind: type[BaseModel] = Outer) -> str:
    with pytest.raises(ConfigurationError) as caught:
        validated(kind, values, where="here.toml")
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("here.toml: ")
    return str(caught.value)


def test_an_unknown_key_is_named_with_those_known_and_the_nearest() -> None:
    message = refusal({"sede": 1})
    assert "unknown key 'sede'" in message
    assert "known are inner, mode, seed." in message
    assert "Did you mean 'seed'?" in message


def test_an_unknown_key_of_a_section_is_compared_with_that_sections_keys() -> None:
    message = refusal({"inner": {"user": 3}})
    assert "unknown key 'inner.user'; known are users. Did you mean 'users'?" in message


def test_a_wrong_value_is_shown_with_what_is_allowed() -> None:
    assert "inner.users = 1: input should be greater than or equal to 2" in refusal(
        {"inner": {"users": 1}}
    )
    assert "mode = 'middling': input should be 'fast' or 'slow'" in refusal({"mode": "middling"})


def test_every_problem_is_named_at_once() -> None:
    message = refusal({"sede": 1, "mode": "middling", "inner": {"users": 0}})
    for part in ("sede", "mode = 'middling'", "inner.users = 0"):
        assert part in message


def test_values_that_are_right_give_the_configuration() -> None:
    assert validated(Outer, {"inner": {"users": 5}}, where="x").inner.users == 5


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"clipping": "fixed"}, "clip_norm goes with clipping = 'fixed'"),
        ({"clip_norm": 1.0}, "clip_norm goes with clipping = 'fixed'"),
        ({"similarity": "rbo", "sequence_order": "index"}, "compares ranks"),
        ({"similarity": "cosine", "sequence_order": "index"}, "reads no sequence"),
        ({"epsilon0": 0}, "epsilon0 = 0: input should be greater than 0"),
        ({"epsilon0": -1}, "epsilon0 = -1"),
        ({"epsilon0": float("nan")}, "epsilon0 = nan: input should be a finite number"),
        ({"epsilon0": float("inf")}, "epsilon0 = inf"),
        ({"top_k": 0}, "top_k = 0"),
        ({"top_k_fraction": 1.5}, "top_k_fraction = 1.5"),
        ({"rounds": 0}, "rounds = 0"),
        ({"learning_rate": float("nan")}, "learning_rate = nan"),
        ({"batch_size": 0}, "batch_size = 0"),
    ],
)
def test_parameters_of_the_protocol_that_make_no_sense_are_refused(
    values: dict[str, Any], says: str
) -> None:
    assert says in refusal(values, PACFLConfig)


@pytest.mark.parametrize(
    "values",
    [
        {"sweep_epsilon0": [0.0]},
        {"sweep_epsilon0": [float("nan")]},
        {"probe_fractions": [0.0]},
        {"probe_fractions": [1.0]},
        {"delta": 0.0},
        {"delta": 1.0},
        {"confidence": 1.0},
        {"probe_users": 2},
        {"reference_rounds": 1},
        {"seed": -1},
    ],
)
def test_settings_of_an_audit_that_make_no_sense_are_refused(values: dict[str, Any]) -> None:
    (key,) = values
    assert key in refusal(values, AuditConfig)


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"federation": {"users": 1}}, "federation.users"),
        ({"federation": {"alpha": 0}}, "federation.alpha"),
        ({"federation": {"partition": "sorted"}}, "federation.partition"),
        ({"federation": {"user": 3}}, "federation.user"),
        ({"seed": -1}, "seed"),
    ],
)
def test_settings_of_a_simulation_that_make_no_sense_are_refused(
    values: dict[str, Any], key: str
) -> None:
    assert key in refusal(values, SimulationConfig)


@given(st.integers(-(10**12), 10**12) | st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_on_the_command_line_is_read_as_that_number(value: float) -> None:
    assert parse_assignment(f"key={value!r}") == ("key", value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("key=true", True),
        ("key=rbo", "rbo"),
        ('key="3"', "3"),
        ("key = 3 ", 3),
        ("key=a=b", "a=b"),
        ("key=[1, 2]", [1, 2]),
        ("key=", ""),
        ("key=1\nother = 2", "1\nother = 2"),
    ],
)
def test_a_value_on_the_command_line_is_read_as_toml_or_else_as_text(
    text: str, value: object
) -> None:
    assert parse_assignment(text) == ("key", value)


@pytest.mark.parametrize("text", ["epsilon0", "=3", " =3", ""])
def test_what_is_no_assignment_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="not of the form KEY=VALUE"):
        parse_assignment(text)


def test_a_file_that_is_not_toml_is_named_with_the_place(tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text("seed = \n")
    with pytest.raises(ConfigurationError, match=r"bad\.toml: not valid TOML .*line 1"):
        read_toml(file)
    file.write_bytes(b"seed = '\xff'")
    with pytest.raises(ConfigurationError, match=r"bad\.toml: not valid TOML"):
        read_toml(file)


def test_a_file_that_cannot_be_read_is_named_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"none\.toml: cannot be read \(No such file"):
        read_toml(tmp_path / "none.toml")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_toml(tmp_path)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"iteration": 3}, "attack 'x' has no option 'iteration'; known are iterations,"),
        ({"iteration": 3}, "Did you mean 'iterations'?"),
        (
            {"iterations": "many"},
            "iterations = 'many': input should be a valid integer",
        ),
        ({"iterations": 2.5}, "iterations = 2.5: input should be a valid integer"),
        ({"iterations": 0}, "attack 'x': iterations must be at least 1, got 0"),
        ({"prior": "flat"}, "prior = 'flat': input should be 'auto', 'none', 'gaussian', 'pca' or"),
        ({"total_variation": float("nan")}, "total_variation must not be negative, got nan"),
        ({"learning_rate": float("inf")}, "learning_rate = inf: must be a finite number"),
        ({"restarts": True}, "restarts = true: must be a number, not true or false"),
    ],
)
def test_options_of_an_attack_are_checked_by_name_type_and_range(
    options: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        constructed(SortedValueMatching, options, where="attack 'x'")
    assert says in str(caught.value)


def test_options_that_are_right_give_the_attack() -> None:
    made = constructed(SortedValueMatching, {"iterations": 7, "prior": "pca"}, where="attack 'x'")
    assert made == SortedValueMatching(iterations=7, prior="pca")


def test_an_attack_that_is_no_dataclass_has_no_options() -> None:
    class Bare:
        pass

    assert isinstance(constructed(Bare, {}, where="attack 'bare'"), Bare)
    with pytest.raises(ConfigurationError, match="has no option 'a'; it has none"):
        constructed(Bare, {"a": 1}, where="attack 'bare'")


@pytest.mark.parametrize("name", list(plugins.available("attack")))
def test_every_registered_attack_can_be_made_from_checked_options(name: str) -> None:
    kind = plugins.load("attack", name)
    assert constructed(kind, {}, where=name) == kind()

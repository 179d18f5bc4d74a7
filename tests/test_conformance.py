"""Every registered protocol and attack keeps the rules, and no attack profits from the truth."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privaudit import plugins
from privaudit._conformance.digests import digest_guesses
from privaudit.attacks.base import Attack, Knowledge
from privaudit.attacks.control import deranged, pseudonymise
from privaudit.attacks.inference import inject_probes
from privaudit.attacks.inversion import BlindCoordinates
from privaudit.attacks.pseudonyms import pseudonymise_round
from privaudit.campaigns.membership import membership_experiment
from privaudit.datasets import load_dataset
from privaudit.datasets.base import FederatedData, LabelledImages
from privaudit.datasets.partition import partition, single_record_users
from privaudit.models import ModelSpec
from privaudit.protocols.baselines.kinds import SERVER, UPDATE
from privaudit.protocols.disue import DisUE, DisUEConfig
from privaudit.protocols.disue import kinds as disue
from privaudit.protocols.pa_cfl import kinds
from privaudit.testing import check_attack, check_protocol
from privaudit.transcript import (
    Array,
    Capability,
    Coalition,
    MemoryRecorder,
    Transcript,
    Truth,
    View,
)

pytestmark = pytest.mark.usefixtures("brief_fits")

MS, AS = kinds.MANAGEMENT_SERVER, kinds.AGGREGATION_SERVER
MODEL = ModelSpec("lenet", (1, 8, 8), 10)
BRIEF: dict[str, Any] = {"iterations": 3}
REFINED = BRIEF | {"refinements": 1, "refinement_steps": 2}
BLIND: dict[str, Any] = {"simulated_users": 20, "starts": 1, "evaluations": 4}


@cache
def single_records() -> FederatedData:
    return single_record_users(
        load_dataset("digits"), users=4, auxiliary_records=60, rng=np.random.default_rng(0)
    )


@cache
def many_records() -> FederatedData:
    return partition(
        load_dataset("digits"),
        users=6,
        scheme="clustered",
        groups=3,
        records_per_user=20,
        auxiliary_records=120,
        rng=np.random.default_rng(0),
    )


class Forgetful(MemoryRecorder):
    """A recorder that is never told the truth."""

    def note_truth(self, target: str, **arrays: Array) -> None:
        return


def configured(name: str, **parameters: Any) -> Any:
    kind = plugins.load("protocol", name)
    keys = kind.Config.model_fields
    settings = {"model": MODEL.name, "similarity": "jaccard", **parameters}
    return kind(kind.Config(**{k: v for k, v in settings.items() if k in keys}))


def run(name: str, data: FederatedData, recorder: MemoryRecorder, **parameters: Any) -> Transcript:
    configured(name, **parameters).run(data, rng=np.random.default_rng(3), recorder=recorder)
    return recorder.transcript()


def gradients(name: str, recorder: MemoryRecorder) -> Transcript:
    return run(name, single_records(), recorder, rounds=1, update="gradient", top_k_fraction=0.02)


def training(recorder: MemoryRecorder) -> Transcript:
    return run("pa-cfl", many_records(), recorder, rounds=2, local_epochs=1)


def few_steps(recorder: MemoryRecorder) -> Transcript:
    """Run local training of few steps, so that it can be unrolled."""
    return run("fedavg", single_records(), recorder, rounds=1)


def few_hidden_steps(recorder: MemoryRecorder) -> Transcript:
    """Run PA-CFL with local training of few steps."""
    return run("pa-cfl", single_records(), recorder, rounds=1)


def averaging(recorder: MemoryRecorder) -> Transcript:
    return run("fedavg", many_records(), recorder, rounds=2, local_epochs=1)


def private(recorder: MemoryRecorder) -> Transcript:
    return run("dp-fedavg", many_records(), recorder, rounds=1, local_epochs=1)


def updates_hidden(recorder: MemoryRecorder) -> Transcript:
    return pseudonymise(averaging(recorder), kind=UPDATE, round=2, rng=np.random.default_rng(0))[0]


def remainders_hidden(recorder: MemoryRecorder) -> Transcript:
    return pseudonymise(
        training(recorder), kind=kinds.NOISED_REMAINDER, round=2, rng=np.random.default_rng(0)
    )[0]


def clusters_hidden(recorder: MemoryRecorder) -> Transcript:
    return pseudonymise_round(
        training(recorder),
        round=2,
        kinds=(kinds.CLUSTER_AGGREGATE,),
        rng=np.random.default_rng(0),
    )[0]


def one_step(recorder: MemoryRecorder) -> Transcript:
    """Run one round with one gradient of many records a user."""
    settings: dict[str, Any] = {"rounds": 1, "update": "gradient", "top_k_fraction": 0.05}
    return run("pa-cfl", many_records(), recorder, **settings)


def linked(recorder: MemoryRecorder) -> Transcript:
    hidden, _ = pseudonymise(
        training(recorder),
        kind=kinds.PERMUTATION_SEQUENCE,
        round=2,
        rng=np.random.default_rng(0),
    )
    return hidden


def similar(recorder: MemoryRecorder) -> Transcript:
    """Run DisUE with plain similarities of all clients."""
    config = DisUEConfig(
        model=MODEL.name,
        rounds=2,
        local_epochs=1,
        participation=1.0,
        similarity="plain",
        distillation="none",
    )
    DisUE(config).run(many_records(), rng=np.random.default_rng(3), recorder=recorder)
    return recorder.transcript()


def similar_hidden(recorder: MemoryRecorder) -> Transcript:
    hidden, _ = pseudonymise_round(
        similar(recorder),
        round=2,
        kinds=(disue.PARAMETERS,),
        rng=np.random.default_rng(0),
    )
    return hidden


def probed(recorder: MemoryRecorder) -> Transcript:
    transcript = similar(recorder)
    sent = [m for m in transcript.messages if m.kind == disue.PARAMETERS and m.round == 1]
    return inject_probes(
        transcript,
        round=1,
        vectors={m.sender: m.arrays["parameters"] for m in sent},
        knowledge=Knowledge(MODEL, None, many_records().auxiliary),
        rng=np.random.default_rng(0),
    )


#: For each attack: its options, how the run is made, and who colludes.
CASES: dict[str, list[tuple[dict[str, Any], Any, tuple[str, ...]]]] = {
    "inversion/dlg": [({"iterations": 2}, "fedavg", (SERVER,))],
    "inversion/cosine": [(BRIEF, "fedavg", (SERVER,))],
    "inversion/top-k": [
        (REFINED, "pa-cfl", (AS, "user-1")),
        (REFINED | {"source": "update"}, "fedavg", (SERVER,)),
    ],
    "inversion/zero-fill": [
        (BRIEF, "pa-cfl", (AS, "user-1")),
        (BRIEF | {"placement": "as-received"}, "pa-cfl", (AS,)),
        (BRIEF | {"source": "update"}, "fedavg", (SERVER,)),
    ],
    "inversion/sorted-values": [(BRIEF, "pa-cfl", (AS,))],
    "inversion/rank-profile": [(REFINED | {"profile_records": 10}, "pa-cfl", (MS,))],
    "inversion/analytic": [(BRIEF | {"feature_iterations": 3}, "fedavg", (SERVER,))],
    "inversion/local-steps": [(BRIEF, "fedavg", (SERVER,)), (BRIEF, few_steps, (SERVER,))],
    "inversion/local-steps-top-k": [
        (BRIEF, few_hidden_steps, (AS, "user-1")),
        (BRIEF | {"source": "update"}, few_steps, (SERVER,)),
    ],
    "inversion/local-steps-ranks": [
        (BRIEF | {"profile_records": 4, "records": 1}, few_hidden_steps, (MS,))
    ],
    "inversion/blind-coordinates": [
        (BLIND, "pa-cfl", (AS,)),
        (BLIND | {"round": 2, "start": "first-round"}, training, (AS,)),
    ],
    "inversion/blind-top-k": [(BRIEF | {"placing": BlindCoordinates(**BLIND)}, "pa-cfl", (AS,))],
    "inference/zero-sum-labels": [({}, one_step, (AS,))],
    "inference/labels-from-values": [({"placing": BlindCoordinates(**BLIND)}, training, (AS,))],
    "inference/labels-from-permutation": [
        ({}, "pa-cfl", (MS,)),
        ({"simulated_users": 30, "records": (20,)}, training, (MS,)),
    ],
    "reidentification/permutation-linking": [({}, linked, (MS,))],
    "reidentification/gradient-linking": [
        ({}, updates_hidden, (SERVER,)),
        ({}, remainders_hidden, (MS,)),
    ],
    "reidentification/cluster-linking": [({"starts": 2}, clusters_hidden, (AS,))],
    "inference/labels-from-noised-remainder": [
        ({"simulated_users": 1, "rounds": 1}, training, (MS,)),
        ({"simulated_users": 1, "filter": "linear"}, training, (AS, "user-1")),
    ],
    "inference/membership": [
        ({"method": "loss-change"}, averaging, (SERVER,)),
        ({"method": "gradient-alignment"}, training, (AS, "user-1")),
        ({"method": "matched-filter"}, private, (SERVER,)),
        ({"method": "likelihood-ratio", "shadows": 4, "rounds": 1}, similar, (disue.SERVER,)),
    ],
    "inference/property": [
        ({"simulated_users": 10, "classes": (0, 1, 2)}, training, (AS, "user-1")),
    ],
    "inference/class-counts": [({}, similar, (disue.SERVER,))],
    "inference/one-client-cluster": [({}, similar, (disue.SERVER,))],
    "inference/similarity-probes": [
        ({}, probed, (disue.SERVER, *(f"probe-{c}" for c in range(10)))),
    ],
    "reconstruction/similarity-gram": [({}, similar, (disue.SERVER, "user-1", "user-2"))],
    "reidentification/similarity-linking": [({"starts": 2}, similar_hidden, (disue.SERVER,))],
    "collusion/update-recovery": [
        ({}, "fedavg", (SERVER,)),
        ({}, training, (AS, "user-1")),
        ({}, training, (MS, "user-1")),
        ({}, training, (AS, MS)),
    ],
}
EVERY = [
    pytest.param(name, *case, id=f"{name}-{number}")
    for name, cases in CASES.items()
    for number, case in enumerate(cases)
]


def transcript_of(made: Any, recorder: MemoryRecorder) -> Transcript:
    return gradients(made, recorder) if isinstance(made, str) else made(recorder)


@cache
def recorded(made: Any) -> tuple[Transcript, Truth]:
    recorder = MemoryRecorder()
    return transcript_of(made, recorder), recorder.truth()


@cache
def recorded_without_truth(made: Any) -> Transcript:
    return transcript_of(made, Forgetful())


def view_of(transcript: Transcript, members: tuple[str, ...]) -> View:
    return transcript.view(Coalition.of(*members, capabilities=Capability))


def knowledge_for(made: Any, transcript: Transcript) -> Knowledge:
    single = isinstance(made, str) or made is few_steps
    data = single_records() if single else many_records()
    known = Knowledge(MODEL, transcript.public_arrays["initial-parameters"], data.auxiliary)
    return membership_experiment(
        known,
        Truth({c.party: arrays_of(c.train) for c in data.clients}),
        tuple(c.party for c in data.clients),
        candidates=1 if isinstance(made, str) else 4,
        seed=0,
    )[0]


def arrays_of(records: LabelledImages) -> dict[str, Array]:
    return {"images": records.images, "labels": records.labels}


def attack_of(name: str, options: dict[str, Any]) -> Attack:
    attack: Attack = plugins.load("attack", name)(**options)
    return attack


#: What attacks guessed on their views as they were recorded, for the tests that compare with it.
PLAIN: dict[tuple[str, str, Any, tuple[str, ...]], tuple[set[str], str]] = {}


def plain(
    name: str, options: dict[str, Any], made: Any, members: tuple[str, ...]
) -> tuple[set[str], str]:
    """Return the targets and the digest of an attack's guesses on a recorded run, made once."""
    case = name, repr(options), made, members
    if case not in PLAIN:
        transcript, _ = recorded(made)
        guesses = attack_of(name, options).run(
            view_of(transcript, members),
            knowledge=knowledge_for(made, transcript),
            rng=np.random.default_rng(1),
        )
        PLAIN[case] = set(guesses.target_ids), digest_guesses(guesses)
    return PLAIN[case]


#: Attacks whose cases need runs of their own, by the beginning of their names, and where they are.
ELSEWHERE = {
    "cryptanalysis/": "test_cryptanalysis_*.py",
    "indices/": "test_index_conformance.py",
    "inference/": "test_similarity_inference.py",
    "reconstruction/sent": "test_sent_models.py",
    "reconstruction/similarity": "test_similarity_inference.py",
    "reidentification/similarity": "test_similarity_attacks.py",
}
PROTOCOLS_ELSEWHERE = {"disue": "test_disue_run.py", "pq-mds": "test_pq_mds_recording.py"}


def test_there_is_a_case_for_every_registered_attack() -> None:
    own = {
        name: entries[0].value
        for name, entries in plugins.available("attack").items()
        if entries[0].value.startswith("privaudit.")
    }
    assert set(CASES) <= set(own)
    for name in set(own) - set(CASES):
        patterns = [p for beginning, p in ELSEWHERE.items() if name.startswith(beginning)]
        assert patterns, f"{name}: no test checks its conformance"
        text = "".join(p.read_text() for p in Path(__file__).parent.glob(patterns[0]))
        assert "check_attack(" in text, name
        assert name in text or own[name].rpartition(":")[2] in text, name


@pytest.mark.parametrize(("name", "options", "made", "members"), EVERY)
def test_every_registered_attack_conforms(
    name: str, options: dict[str, Any], made: Any, members: tuple[str, ...]
) -> None:
    transcript, truth = recorded(made)
    check_attack(
        attack_of(name, options),
        view_of(transcript, members),
        knowledge_for(made, transcript),
        truth=truth,
    )


@pytest.mark.parametrize(("name", "options", "made", "members"), EVERY)
def test_an_attack_gives_the_same_guesses_where_no_truth_was_ever_recorded(
    name: str, options: dict[str, Any], made: Any, members: tuple[str, ...]
) -> None:
    assert recorded(made)[1].targets
    without = recorded_without_truth(made)
    guesses = attack_of(name, options).run(
        view_of(without, members),
        knowledge=knowledge_for(made, without),
        rng=np.random.default_rng(1),
    )
    assert digest_guesses(guesses) == plain(name, options, made, members)[1]


@pytest.mark.parametrize(
    ("name", "options", "made", "members"), [p for p in EVERY if "recovery" not in p.values[0]]
)
def test_an_attack_reads_the_messages_that_the_control_deranges(
    name: str, options: dict[str, Any], made: Any, members: tuple[str, ...]
) -> None:
    """Where the payloads are exchanged among the users, the guesses follow them."""
    attack = attack_of(name, options)
    transcript, _ = recorded(made)
    view = view_of(transcript, members)
    knowledge = knowledge_for(made, transcript)
    swapped = deranged(view, kinds=attack.reads, rng=np.random.default_rng(5))
    control = attack.run(swapped, knowledge=knowledge, rng=np.random.default_rng(1))
    targets, digest = plain(name, options, made, members)
    assert set(control.target_ids) == targets
    assert digest_guesses(control) != digest


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("pa-cfl", {"rounds": 2, "global_period": 2}),
        ("pa-cfl", {"rounds": 1, "clipping": "fixed", "clip_norm": 1.0}),
        ("pa-cfl", {"rounds": 1, "protection": False, "pre_clustering": False}),
        ("pa-cfl", {"rounds": 1, "update": "gradient"}),
        ("fedavg", {"rounds": 2}),
        ("dp-fedavg", {"rounds": 2}),
        ("dp-fedavg", {"rounds": 1, "privacy_level": "user", "update": "gradient"}),
    ],
)
def test_every_registered_protocol_conforms(name: str, parameters: dict[str, Any]) -> None:
    check_protocol(configured(name, **parameters), many_records())


def test_no_registered_protocol_is_left_out() -> None:
    own = {n for n, e in plugins.available("protocol").items() if "privaudit." in e[0].value}
    assert own == {"pa-cfl", "fedavg", "dp-fedavg", *PROTOCOLS_ELSEWHERE}
    for name, file in PROTOCOLS_ELSEWHERE.items():
        text = (Path(__file__).parent / file).read_text()
        assert "check_protocol(" in text, name


def test_the_check_has_teeth_where_an_attack_is_given_the_answer() -> None:
    """Auxiliary data that hold a user's record are caught on a real run."""
    transcript, truth = recorded("pa-cfl")
    knowledge = knowledge_for("pa-cfl", transcript)
    stolen = replace(knowledge, auxiliary=single_records().clients[1].train)
    with pytest.raises(AssertionError, match=r"^\[auxiliary\]"):
        check_attack(
            attack_of("inference/labels-from-permutation", {}),
            view_of(transcript, (MS,)),
            stolen,
            truth=truth,
        )

"""Which attacks an audit of DisUE makes on which views."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from privaudit.attacks.base import Attack
from privaudit.attacks.cryptanalysis import PadRatio, RecoveredInversion
from privaudit.attacks.inference import (
    LabelsFromCounts,
    LabelsFromLoneModel,
    LabelsFromSimilarity,
    inject_probes,
)
from privaudit.attacks.reconstruction import SentModels, SimilarityReconstruction
from privaudit.attacks.reidentification import SimilarityLinking
from privaudit.campaigns.cells import Cell
from privaudit.campaigns.linking import linkable_rounds, linking_cell
from privaudit.campaigns.planned import GRANTED, Planned, attack_cell
from privaudit.campaigns.runs import RecordedRun, knowledge_of
from privaudit.campaigns.scorers import (
    image_scorers,
    label_scorers,
    model_scorers,
    vector_scorers,
)
from privaudit.protocols.disue import defences, kinds
from privaudit.transcript import Coalition, PartyId, Transcript, Truth

__all__ = [
    "DEFENCES",
    "plan_active",
    "plan_defences",
    "plan_large",
    "plan_linking",
    "plan_main",
    "plan_probe",
    "plan_variant",
]

SERVER, HELPER = kinds.SERVER, kinds.KEY_HELPER

#: Heading of the gallery.
PICTURES = "Records rebuilt from encrypted similarity messages"

Treatment = Callable[[Transcript], Transcript]


def _treat(transcript: Transcript, *, defence: str, seed: int) -> Transcript:
    rng = np.random.default_rng([seed, 11])
    name, _, amount = defence.partition(" ")
    change: Callable[[np.ndarray], np.ndarray]
    if name == "rounded":
        change = partial(defences.rounded, decimals=int(amount))
    elif name == "noised":
        change = partial(defences.noised, deviations=float(amount), rng=rng)
    else:
        change = partial(defences.co_membership, seed=seed)
    return defences.defended(transcript, change)


#: What could be done to the similarity matrix, by the key of a treatment, in words.
DEFENCES = {
    "rounded 2": "rounded to 2 decimals",
    "noised 0.3": "noise of 0.3 standard deviations",
    "noised 1": "noise of 1 standard deviation",
    "membership": "only who is in one cluster",
}


def _clients(run: RecordedRun, *, round: int = 1) -> tuple[PartyId, ...]:
    """Return the clients of a round in the order in which they compare themselves."""
    sent = [
        m.receiver
        for m in run.transcript.messages
        if m.kind in (kinds.GLOBAL_MODEL, kinds.CLUSTER_MODEL) and m.round == round
    ]
    return tuple(dict.fromkeys(sent))


def plan_main(run: RecordedRun, *, seed: int) -> Iterator[Planned]:
    """Attacks on the audited run: what it sends in the clear, and what its ciphertexts hide."""
    setting = "the audited run, all rounds"
    make = partial(attack_cell, run, seed=seed)
    yield Planned(
        make(
            SentModels(),
            (SERVER,),
            "server",
            model_scorers(name="parameters", reference="parameters"),
            setting=setting,
        ),
        "models in the clear",
        "Trained models that the server receives as they are",
        "The server averages and distils from the models themselves, so that it must have them; "
        "encrypting them for the comparison hides nothing from it.",
    )
    yield Planned(
        make(
            PadRatio(),
            (SERVER,),
            "server",
            model_scorers(name="quantised", reference="vector"),
            setting=setting,
        ),
        "models from ciphertexts",
        "Trained models read off the encrypted similarity messages",
        "The encryption is undone from the ciphertexts alone, within a second a client.",
    )
    yield Planned(
        make(
            LabelsFromCounts(), (SERVER,), "server", label_scorers(run), setting="the audited run"
        ),
        "class counts",
        "How many records of each class a client holds",
        "Clients send their class counts in the clear, because the label sampler and the weights "
        "of the clusters need them.",
        headline=True,
    )
    yield from _partial_linking(run, seed=seed)


def _partial_linking(run: RecordedRun, *, seed: int) -> Iterator[Planned]:
    attack = SimilarityLinking(history=True, open_set=True)
    rounds = linkable_rounds(run, attack)
    if len(rounds) < 2:
        return
    yield Planned(
        linking_cell(
            run,
            attack,
            Coalition(frozenset({SERVER}), GRANTED),
            label="server",
            probe=rounds[-1],
            setting=f"the audited run, round {rounds[-1]} linked to all earlier ones",
            seed=seed,
        ),
        "linking, partial participation",
        "Clients recognised by their similarities, in the audited run",
        "With few of the clients in a round, many pairs were never compared before.",
    )


def plan_variant(run: RecordedRun, *, variant: str, seed: int) -> Iterator[Planned]:
    """Who reads clients' models under one way of computing similarities, by coalition."""
    clients = _clients(run)
    peer = clients[-1]
    secure = "" if variant == "plain" else ", secure aggregation"
    setting = f"similarities {variant}{secure}, all {len(clients)} clients, round 1"
    coalitions: list[tuple[tuple[PartyId, ...], str]] = [
        ((SERVER,), "server"),
        ((peer,), "1 client"),
        ((SERVER, peer), "server + 1 client"),
    ]
    if variant == "shared_key":
        coalitions += [((HELPER,), "key helper"), ((HELPER, SERVER), "server + key helper")]
    run = _first_round(run)
    attack: Attack = SentModels() if variant == "plain" else PadRatio()
    scorers = (
        model_scorers(name="parameters", reference="parameters")
        if variant == "plain"
        else model_scorers(name="quantised", reference="vector")
    )
    for members, label in coalitions:
        yield Planned(
            attack_cell(run, attack, members, label, scorers, setting=setting, seed=seed),
            f"{variant}: {label}",
            f"Clients' models under '{variant}'",
            _VARIANT_SUMMARIES[variant],
            headline=variant != "plain" and label in ("server", "1 client"),
        )
    if variant == "relay":
        yield from _unbroken(run, setting=setting, seed=seed)


def _first_round(run: RecordedRun) -> RecordedRun:
    """Return the run as it was after its first round."""
    messages = tuple(m for m in run.transcript.messages if m.round in (None, 1))
    return replace(
        run,
        transcript=replace(run.transcript, messages=messages),
        digest=f"{run.digest}:round-1",
    )


_VARIANT_SUMMARIES = {
    "plain": "Without encryption the server has the models, and no other party has.",
    "pairwise": "A client that answers a comparison reads the model of the client that asked, "
    "which plain federated averaging would never have shown it.",
    "relay": "The server carries the encrypted messages between clients, and reads the models.",
    "shared_key": "The server computes with the ciphertexts of all clients, and reads the models.",
}


def _unbroken(run: RecordedRun, *, setting: str, seed: int) -> Iterator[Planned]:
    """Attacks that need no broken encryption: lone clusters, and colluders' similarities."""
    yield Planned(
        attack_cell(
            run,
            LabelsFromLoneModel(),
            (SERVER,),
            "server",
            label_scorers(run),
            setting=setting,
            seed=seed,
        ),
        "one-client clusters",
        "Labels of clients that are alone in their cluster",
        "Secure aggregation over a cluster hides nobody who is alone in it.",
    )
    colluders = _clients(run)[-3:]
    yield Planned(
        attack_cell(
            run,
            SimilarityReconstruction(),
            (SERVER, *colluders),
            f"server + {len(colluders)} clients",
            vector_scorers(run),
            setting=setting,
            seed=seed,
        ),
        "similarities to colluders",
        "The direction of a client's model from its similarities to colluders'",
        "Every colluding client adds one known direction.",
    )


def plan_active(run: RecordedRun, *, seed: int) -> Iterator[Planned]:
    """Labels by probe models: the server lets clients of its own take part in round 1."""
    run = _first_round(run)
    truth = run.truth or Truth()
    clients = _clients(run)
    probed = inject_probes(
        run.transcript,
        round=1,
        vectors={c: truth.get(f"{c}/round-1", "vector") for c in clients},
        knowledge=knowledge_of(run),
        rng=np.random.default_rng([seed, 12]),
    )
    injected = probed.ids("injected-client")
    yield Planned(
        Cell(
            attack=LabelsFromSimilarity(),
            coalition=Coalition(frozenset({SERVER, *injected}), GRANTED),
            label="server with injected clients",
            transcript=probed,
            digest=f"{run.digest}:probed:{seed}",
            truth=truth,
            knowledge=knowledge_of(run),
            scorers=label_scorers(run),
            setting=f"all {len(clients)} clients, round 1, {len(injected)} injected clients",
            seed=seed,
        ),
        "probe models",
        "The class a client has most of, from similarities to models of single classes",
        "An active server that lets clients of its own take part needs the similarities alone, "
        "whatever computes them.",
    )


def plan_linking(run: RecordedRun, *, seed: int) -> Iterator[Planned]:
    """Linking of clients between rounds with full participation, and what defences leave."""
    coalition = Coalition(frozenset({SERVER}), GRANTED)
    rounds = linkable_rounds(run, SimilarityLinking())
    clients = len(_clients(run))
    summary = (
        "The similarity matrix that the server needs for clustering tells who is who, whatever "
        "encryption computed it."
    )

    def cell(
        probe: int, gallery: int, *, defence: tuple[str, Treatment] | None = None, method: str
    ) -> Cell:
        told = "" if defence is None else f", {DEFENCES[defence[0]]}"
        return linking_cell(
            run,
            SimilarityLinking(gallery_round=gallery, method="qap" if method == "qap" else "sorted"),
            coalition,
            label="server",
            probe=probe,
            setting=f"{clients} clients in every round, round {probe} linked to round {gallery}"
            f"{told}",
            seed=seed,
            defence=defence,
        )

    previous, last = rounds[-2], rounds[-1]
    yield Planned(
        cell(last, previous, method="qap"),
        "linking, all clients",
        "Pseudonymous clients recognised by their similarities",
        summary,
        headline=True,
    )
    yield Planned(
        cell(last, previous, method="sorted"),
        "linking by sorted rows",
        "The same by comparing sorted rows",
        summary,
    )
    if len(rounds) > 2:
        yield Planned(
            cell(last, rounds[0], method="qap"),
            "linking over many rounds",
            f"The same over {last - rounds[0]} rounds",
            summary,
        )


def plan_defences(run: RecordedRun, *, seed: int) -> Iterator[Planned]:
    """Return linking under each defence, on a run in which similarities are sent."""
    attack = SimilarityLinking()
    rounds = linkable_rounds(run, attack)
    clients = len(_clients(run))
    for key, words in {"": "the matrix as it is", **DEFENCES}.items():
        yield Planned(
            linking_cell(
                run,
                attack,
                Coalition(frozenset({SERVER}), GRANTED),
                label="server",
                probe=rounds[-1],
                setting=f"{clients} clients in every round, round {rounds[-1]} linked to round "
                f"{rounds[-2]}, {words}",
                seed=seed,
                defence=(key, partial(_treat, defence=key, seed=seed)) if key else None,
            ),
            words,
            f"Linking when the server is told: {words}",
            "What could be published of the similarities instead.",
        )


def plan_probe(run: RecordedRun, *, seed: int) -> Iterator[Planned]:
    """From ciphertexts to records, when every client holds one and sends one gradient step."""
    peer = _clients(run)[-1]
    for members, label, who in (
        ((SERVER,), "server", "The server, which carries the encrypted messages, undoes"),
        ((peer,), "1 client", "A client, which answers the comparisons of others, undoes"),
    ):
        yield Planned(
            attack_cell(
                run,
                RecoveredInversion(),
                members,
                label,
                image_scorers(run),
                setting="similarities relay, secure aggregation, one record and one gradient a "
                "client",
                seed=seed,
                keep=True,
            ),
            f"from ciphertexts, {label}",
            "Records from encrypted similarity messages",
            f"{who} the encryption, takes the difference to the model that training started "
            "from, and inverts that gradient.",
            headline=True,
            gallery=PICTURES,
        )


def plan_large(run: RecordedRun, *, seed: int) -> Iterator[Planned]:
    """Attack the network of 582,026 parameters, to see whether it works and how long it takes."""
    dimension = len(run.transcript.public_arrays["initial-parameters"])
    yield Planned(
        attack_cell(
            run,
            PadRatio(),
            (SERVER,),
            "server",
            model_scorers(name="quantised", reference="vector"),
            setting=f"similarities relay, secure aggregation, {dimension:,} parameters",
            seed=seed,
        ),
        "at full size",
        f"Models of {dimension:,} parameters from their ciphertexts",
        "The attack takes about as long as the encryption.",
    )
    yield Planned(
        attack_cell(
            run,
            RecoveredInversion(),
            (SERVER,),
            "server",
            image_scorers(run),
            setting=f"similarities relay, secure aggregation, one record and one gradient a "
            f"client, {dimension:,} parameters",
            seed=seed,
            keep=True,
        ),
        "from ciphertexts, server",
        f"Records from encrypted similarity messages, {dimension:,} parameters",
        "The whole chain, from ciphertexts to records, on a larger network.",
        gallery=f"Records rebuilt from ciphertexts of {dimension:,} parameters",
    )

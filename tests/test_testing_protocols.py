"""The conformance kit passes honest protocols and catches each kind of mistake."""

from typing import ClassVar

import numpy as np
import pytest

from privaudit.datasets.base import ClientData, FederatedData, LabelledImages
from privaudit.ledger import PrivacyEvent, UnprotectedRelease
from privaudit.protocols.base import RoundMetrics, RunOutcome
from privaudit.protocols.baselines.fedavg import FedAvg
from privaudit.protocols.pa_cfl import PACFL, PACFLConfig
from privaudit.testing import check_protocol
from privaudit.transcript import Message, Party


def make_data(users=3, records=12):
    rng = np.random.default_rng(0)

    def some():
        images = rng.random((records, 1, 8, 8)).astype(np.float32)
        return LabelledImages(images, rng.integers(0, 10, records))

    clients = tuple(ClientData(f"user-{i}", some(), some()) for i in range(users))
    return FederatedData("toy", 10, clients, None, some())


class Honest:
    """Each user sends the mean of its images with noise, once a round."""

    name: ClassVar[str] = "toy"
    version: ClassVar[str] = "1"

    def declare(self, data, recorder):
        parties = [*(Party(c.party, "user") for c in data.clients), Party("server", "server")]
        recorder.declare(parties)

    def note(self, client, recorder):
        recorder.note_truth(client.party, images=client.train.images, labels=client.train.labels)

    def payload(self, client, rng):
        return client.train.images.mean(axis=0) + rng.normal()

    def rounds(self):
        return (1, 2)

    def outcome(self):
        return RunOutcome("completed", 2, "", (), (RoundMetrics(1, {"x": np.nan}),))

    def run(self, data, *, rng, recorder, progress=None):
        self.declare(data, recorder)
        for client in data.clients:
            self.note(client, recorder)
        for t in self.rounds():
            for client in data.clients:
                recorder.send(
                    kind="mean",
                    sender=client.party,
                    receiver="server",
                    round=t,
                    arrays={"values": self.payload(client, rng)},
                )
        return self.outcome()

    def event(self, transcript, **changes):
        values = {
            "round": 1,
            "mechanism": UnprotectedRelease("mean", 64),
            "subjects": transcript.ids("user"),
            "observers": ("server",),
            "unit": "a user",
        }
        return PrivacyEvent(**(values | changes))

    def events(self, transcript):
        return (self.event(transcript),)


def caught(protocol, rule, data=None):
    with pytest.raises(AssertionError, match=rf"^\[{rule}\]"):
        check_protocol(protocol, data or make_data())


def changed(**methods):
    return type("Changed", (Honest,), methods)()


def test_an_honest_protocol_passes():
    check_protocol(Honest(), make_data())


@pytest.mark.parametrize(
    "protocol",
    [
        PACFL(PACFLConfig(rounds=2, similarity="jaccard", epsilon0=10.0)),
        PACFL(PACFLConfig(rounds=1, similarity="jaccard", protection=False)),
        FedAvg(FedAvg.Config(rounds=2)),
    ],
    ids=["pa-cfl", "pa-cfl-unprotected", "fedavg"],
)
def test_the_protocols_of_the_package_conform(protocol):
    check_protocol(protocol, make_data(users=4))


def test_randomness_from_elsewhere_is_caught():
    noise = np.random.default_rng()
    caught(changed(payload=lambda self, client, rng: np.array([noise.normal()])), "same-seed")


def test_truth_that_differs_between_equal_runs_is_caught():
    noise = np.random.default_rng()

    def note(self, client, recorder):
        recorder.note_truth(client.party, images=noise.random((1, 1, 2, 2)), labels=np.zeros(1))

    caught(changed(note=note), "same-seed")


def test_a_generator_that_is_not_used_is_caught():
    def payload(self, client, rng):
        return client.train.images.mean(axis=0) + np.random.default_rng(0).normal()

    caught(changed(payload=payload), "another-seed")


def test_a_client_that_is_no_user_is_caught():
    def declare(self, data, recorder):
        recorder.declare(
            [*(Party(c.party, "client") for c in data.clients), Party("server", "server")]
        )

    caught(changed(declare=declare), "users")


def test_rounds_that_go_back_or_start_at_zero_are_caught():
    caught(changed(rounds=lambda self: (2, 1)), "order")
    caught(changed(rounds=lambda self: (0, 1)), "order")


def test_a_run_without_messages_is_caught():
    def run(self, data, *, rng, recorder, progress=None):
        self.declare(data, recorder)
        recorder.publish("number", float(rng.normal()))
        return self.outcome()

    caught(changed(run=run), "order")


def tampered(change):
    """An honest protocol whose recorder was tampered with before the transcript is read."""

    def run(self, data, *, rng, recorder, progress=None):
        outcome = Honest.run(self, data, rng=rng, recorder=recorder)
        recorder._messages = change(recorder._messages)
        return outcome

    return changed(run=run)


def test_a_gap_in_the_numbers_is_caught():
    caught(tampered(lambda messages: messages[1:]), "order")


def test_a_stranger_as_the_end_of_a_message_is_caught():
    def change(messages):
        m = messages[-1]
        stranger = Message(m.seq, m.round, m.kind, m.sender, "stranger", m.arrays)
        return [*messages[:-1], stranger]

    caught(tampered(change), "parties")


def test_a_value_that_is_not_finite_is_caught():
    caught(changed(payload=lambda self, client, rng: np.array([rng.normal(), np.nan])), "finite")


@pytest.mark.parametrize(
    "leak",
    [
        lambda train: train.images,
        lambda train: train.images[0],
        lambda train: train.images[:1].astype(np.float64),
        lambda train: np.concatenate([np.zeros(3, dtype=np.float32), train.images.ravel()]),
        lambda train: train.labels,
    ],
    ids=["images", "one image", "as float64", "inside a vector", "labels"],
)
def test_raw_data_in_a_message_are_caught(leak):
    def run(self, data, *, rng, recorder, progress=None):
        outcome = Honest.run(self, data, rng=rng, recorder=recorder)
        client = data.clients[1]
        recorder.send(
            kind="mean", sender=client.party, receiver="server", arrays={"x": leak(client.train)}
        )
        return outcome

    caught(changed(run=run), "no-raw-data")


def test_raw_data_in_public_are_caught():
    def note(self, client, recorder):
        Honest.note(self, client, recorder)
        recorder.publish("example", client.train.images[0])

    caught(changed(note=note), "no-raw-data")


def test_a_users_own_secrets_may_hold_its_data():
    def note(self, client, recorder):
        Honest.note(self, client, recorder)
        recorder.keep_secret(client.party, "data", client.train.images)

    check_protocol(changed(note=note), make_data())


def test_a_truth_without_labels_is_caught():
    def note(self, client, recorder):
        recorder.note_truth(client.party, images=client.train.images)

    caught(changed(note=note), "truth")


@pytest.mark.parametrize(
    "changes", [{"subjects": ("nobody",)}, {"observers": ("nobody",)}, {"round": 5}]
)
def test_events_about_parties_or_rounds_that_do_not_exist_are_caught(changes):
    def events(self, transcript):
        return (self.event(transcript, **changes),)

    caught(changed(events=events), "events")


def test_events_that_differ_between_equal_transcripts_are_caught():
    calls = []

    def events(self, transcript):
        calls.append(1)
        return (self.event(transcript, unit=f"call {len(calls)}"),)

    caught(changed(events=events), "same-seed")


@pytest.mark.parametrize(
    "outcome",
    [
        RunOutcome("failed", 2, "", (), ()),
        RunOutcome("completed", 3, "", (), ()),
        RunOutcome("completed", 1, "", (), ()),
        RunOutcome("diverged", 1, "", (), ()),
        RunOutcome("completed", 2, "", (), (RoundMetrics(3, {}),)),
        RunOutcome("completed", 2, "", (), (RoundMetrics(2, {}), RoundMetrics(1, {}))),
    ],
    ids=["status", "too many", "too few", "no reason", "metrics beyond", "metrics unordered"],
)
def test_outcomes_that_do_not_agree_with_the_run_are_caught(outcome):
    caught(changed(outcome=lambda self: outcome), "outcome")


def test_a_diverged_run_may_have_begun_its_last_round():
    outcome = RunOutcome("diverged", 1, "diverged in round 2", (), ())
    check_protocol(changed(outcome=lambda self: outcome), make_data())

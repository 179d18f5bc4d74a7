"""Which coalitions are tried, in which order."""

from collusion_runs import AS, MS, make_run

from privaudit.attacks.collusion import coalitions
from privaudit.transcript import Capability, Party, Transcript


def labels(transcript, **options):
    return [c.label for c in coalitions(transcript, **options)]


def test_coalitions_come_smallest_first_and_cover_both_servers():
    recorder, *_ = make_run([0, 0, 0, 1, 1, 1, 1, 1])
    found = list(coalitions(recorder.transcript()))
    assert [c.label for c in found] == [
        "1 user",
        "MS",
        "AS",
        "2 users",
        "MS + 1 user",
        "AS + 1 user",
        "MS + AS",
        "MS + all but one of a pre-cluster",
        "AS + all but one of a pre-cluster",
        "MS + all but one user",
        "AS + all but one user",
    ]
    assert [c.size for c in found] == [1, 1, 1, 2, 2, 2, 2, 3, 3, 8, 8]
    for c in found:
        assert {len(x.members) for x in c.coalitions} == {c.size}


def test_the_first_representative_has_its_colluder_in_the_smallest_pre_cluster():
    recorder, *_ = make_run([0, 0, 0, 0, 1, 1, 2])
    by_label = {c.label: c for c in coalitions(recorder.transcript())}
    assert by_label["AS + 1 user"].coalitions[0].members == {AS, "user-4"}
    # Where the smallest pre-cluster has two users, all but one of it is one user.
    assert "AS + all but one of a pre-cluster" not in by_label


def test_capabilities_are_granted_to_all_and_draws_bound_the_representatives():
    recorder, *_ = make_run([0] * 6)
    for c in coalitions(recorder.transcript(), capabilities=[Capability.AUXILIARY_DATA], draws=3):
        assert 1 <= len(c.coalitions) <= 3
        assert len({x.members for x in c.coalitions}) == len(c.coalitions)
        assert all(x.capabilities == {Capability.AUXILIARY_DATA} for x in c.coalitions)


def test_protocols_with_other_servers_are_covered():
    users = tuple(Party(f"user-{i}", "user") for i in range(4))
    one = Transcript(parties=(*users, Party("server", "server")), messages=())
    assert labels(one) == [
        "1 user",
        "server",
        "2 users",
        "server + 1 user",
        "server + all but one user",
    ]
    pseudonyms = Transcript(parties=(*one.parties, Party("pseudonym-0", "pseudonym")), messages=())
    assert labels(pseudonyms) == labels(one)


def test_no_coalition_holds_every_user():
    two = Transcript(
        parties=(Party("a", "user"), Party("b", "user"), Party(MS, "server")), messages=()
    )
    assert labels(two) == ["1 user", "MS", "MS + 1 user"]

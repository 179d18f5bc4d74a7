"""Campaigns that several tests run: 100 cells over three protocols, and reading what was stored."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from privaudit.campaigns.grid.store import FILE

#: 100 cells on six runs, as small as shows anything.
HUNDRED = """
name = "hundred"

[parameters]
rounds = 2
model = "mlp"
local_epochs = 1

[parameters.pa-cfl]
similarity = "jaccard"

[parameters.disue]
similarity = "plain"
distillation = "none"
participation = 1.0

[parameters.pq-mds]
rounds = 1
codewords = 4
subspaces = 2
reference = false

[federation]
users = 5
records_per_user = 8
auxiliary_records = 20
rows = 60
auxiliary_rows = 60

[grid]
protocol = ["pa-cfl", "disue", "pq-mds"]
seed = [0, 1]

[[attack]]
name = "reidentification/permutation-linking"
protocols = ["pa-cfl"]
coalitions = ["management-server"]
options = { similarity = ["rbo", "jaccard"], matching = ["assignment", "nearest"], \
persistence = [0.9, 0.95, 0.98] }

[[attack]]
name = "collusion/update-recovery"
protocols = ["pa-cfl"]
coalitions = ["management-server", "aggregation-server", "aggregation-server + 1 user", "4 users"]
options = { round = [1, 2] }

[[attack]]
name = "inference/class-counts"
protocols = ["disue"]
coalitions = ["server", "1 user"]
options = { round = [1, 2] }

[[attack]]
name = "reidentification/similarity-linking"
protocols = ["disue"]
coalitions = ["server", "server + 1 user"]
options = { method = ["sorted", "qap"], starts = [2, 4, 8] }

[[attack]]
name = "indices/code-recovery"
protocols = ["pq-mds"]
threat_model = "hbc_server"

[[attack]]
name = "indices/frequency-matching"
protocols = ["pq-mds"]
threat_model = "server_aux"

[[attack]]
name = "indices/known-sample"
protocols = ["pq-mds"]
threat_model = "server_known"
options = { method = ["table", "ridge"], known = [5, 10, 15] }

[[attack]]
name = "indices/cross-party"
protocols = ["pq-mds"]
threat_model = "server_plus_A"
options = { known = [5, 10, 15] }

[[attack]]
name = "indices/record-linking"
protocols = ["pq-mds"]
threat_model = "server_known"
options = { ranks = [1, 2, 3] }
""".replace("\\\n", "")


#: Four cells on two runs, of a second or so.
TINY_CAMPAIGN = """
name = "tiny"
protocol = "fedavg"
parameters = { rounds = 1, model = "mlp", local_epochs = 1 }
federation = { users = 3, records_per_user = 8 }

[grid]
seed = [0, 1]

[[attack]]
name = "collusion/update-recovery"
coalitions = ["server", "server + 1 user"]
"""


def stored(folder: Path) -> list[tuple[Any, ...]]:
    """Everything that does not depend on how fast the machine was."""
    with sqlite3.connect(folder / FILE) as connection:
        return connection.execute(
            "SELECT key, position, specification, status, reason, result FROM cells ORDER BY key"
        ).fetchall()


def finished(folder: Path) -> int:
    """How many cells are done, as a reader beside the running campaign sees it."""
    if not (folder / FILE).is_file():
        return 0
    try:
        with sqlite3.connect(f"file:{folder / FILE}?mode=ro", uri=True, timeout=5) as connection:
            query = "SELECT count(*) FROM cells WHERE status != 'pending'"
            return int(connection.execute(query).fetchone()[0])
    except sqlite3.OperationalError:
        # The table is not there yet.
        return 0

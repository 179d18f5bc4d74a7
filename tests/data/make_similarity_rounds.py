"""Make ``similarity_rounds.npz``: similarity matrices of two federations of 20 clients.

    python tests/data/make_similarity_rounds.py

DisUE on scikit-learn's digits, Dirichlet 0.1, all clients in every round: cosines of parameters
and of updates in rounds 5, 6 and 10, of the federation under attack and of another one.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "benchmarks"))

from _similarity_runs import Setting, cosines, train  # noqa: E402


def main() -> None:
    arrays = {}
    for name, seed in (("attacked", 0), ("other", 1)):
        federation = train(Setting(alpha=0.1), seed=seed)
        for t in (5, 6, 10):
            for measure in ("params", "delta"):
                arrays[f"{name}-{measure}-{t}"] = cosines(federation.rounds[t - 1], measure)
    np.savez_compressed(HERE / "similarity_rounds.npz", **arrays)


if __name__ == "__main__":
    main()

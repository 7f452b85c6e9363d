"""The paper's numbers (Exarchakis, Oubari and Lenz, CVPR 2022), as printed there: mean and standard deviation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """A line of the paper's table: relative error in percent, evaluation speed-up, iterations."""

    error: tuple[float, float]
    speedup: tuple[float, float]
    iterations: tuple[float, float]


TABLE: dict[str, dict[str, Row]] = {
    "kdd": {
        "k-means": Row((0.0, 0.7), (1.0, 0.0), (5.0, 0.0)),
        "k-means + lwcs": Row((14.0, 0.5), (35.1, 0.0), (5.0, 0.0)),
        "vc-GMM": Row((12.0, 0.4), (533.1, 36.5), (11.7, 1.0)),
        "D-GMM": Row((12.0, 1.0), (622.1, 28.0), (17.0, 0.7)),
    },
    "cifar10": {
        "k-means": Row((0.0, 0.0), (1.0, 0.0), (7.6, 0.4)),
        "k-means + lwcs": Row((7.0, 0.1), (48.9, 3.5), (5.4, 0.4)),
        "vc-GMM": Row((7.0, 0.0), (674.7, 45.8), (11.8, 0.8)),
        "D-GMM": Row((8.0, 0.0), (731.5, 41.9), (21.4, 1.2)),
    },
    "song": {
        "k-means": Row((0.0, 0.0), (1.0, 0.0), (5.0, 0.0)),
        "k-means + lwcs": Row((8.0, 0.0), (7.8, 0.0), (5.0, 0.0)),
        "vc-GMM": Row((8.0, 0.1), (698.2, 0.7), (12.0, 0.0)),
        "D-GMM": Row((8.0, 0.2), (862.1, 18.3), (21.7, 0.4)),
    },
    "susy": {
        "k-means": Row((0.0, 0.0), (1.0, 0.0), (14.7, 0.4)),
        "k-means + lwcs": Row((6.0, 0.1), (11.1, 0.4), (14.1, 0.5)),
        "vc-GMM": Row((6.0, 0.1), (663.1, 17.1), (25.4, 0.6)),
        "D-GMM": Row((5.0, 0.1), (605.7, 11.1), (55.6, 1.0)),
    },
}
TABLE["cifar10-held-out"] = TABLE["cifar10"]

ROWS = {"kdd": 145_751, "cifar10": 50_000, "song": 515_345, "susy": 5_000_000}
CLUSTERS = {"kdd": 500, "cifar10": 500, "song": 4_000, "susy": 2_000}
CORESETS = {"kdd": 2**12, "cifar10": 2**12, "song": 2**16, "susy": 2**16}

# The saving in distance evaluations of D-GMM over vc-GMM on ImageNet 64 x 64, in percent, by the size of the coreset.
SAVING = {2**13: 22, 2**14: 31, 2**15: 40, 2**16: 44, 2**17: 49}

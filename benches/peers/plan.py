"""The complete race: which contenders run on which problem, and how often.

Fits that take seconds run three times, fits that take minutes once. The problems in FULL have all contenders, including
converged ones; the others have our settings, SuperKMeans and, if it takes about a minute or less, faiss with ten
iterations. README.md says what is left out and why.
"""

from __future__ import annotations

from dataclasses import dataclass

OFTEN, ONCE = 3, 1
BASIC = dict.fromkeys(("dgmm-quick", "dgmm", "superkmeans"), OFTEN) | {"dgmm-i1": ONCE}
CONVERGED = dict.fromkeys(("dgmm-quick-refine", "dgmm-1e-5", "dgmm-1e-5-refine"), ONCE)
LIBRARIES = (
    dict.fromkeys(("dgmm-i1", "dgmm-quick-refine", "dgmm-refine", "dgmm-1e-5", "dgmm-1e-5-refine"), OFTEN)
    | dict.fromkeys(("superkmeans-sq8", "superkmeans-lvq4"), OFTEN)
    | dict.fromkeys(("superkmeans-flat", "faiss-10", "faiss-super-10", "faiss-25", "faiss-100"), ONCE)
    | dict.fromkeys(("sklearn-10", "minibatch", "lance", "fastkmeans-rs-10"), ONCE)
)
BEFORE = {"dgmm-before-1e-5": ONCE}
FAISS = {"faiss-10": ONCE}
MINUTES = {"sklearn-converged": ONCE, "clostera": ONCE}  # even longer on GloVe


@dataclass(frozen=True)
class Case:
    """One problem. `repeats` has the measurements of each contender by its name."""

    dataset: str
    clusters: int
    repeats: dict[str, int]


FULL = (
    Case("glove50", 1_000, BASIC | LIBRARIES | BEFORE | {"sklearnex-10": ONCE}),
    Case("kdd_bio", 500, BASIC | LIBRARIES | MINUTES),
    Case("word_pieces", 1_000, BASIC | LIBRARIES | MINUTES | {"superkmeans-rabitq": OFTEN}),
)
OTHERS = (
    Case("glove50", 4_000, BASIC | CONVERGED | FAISS | BEFORE | {"dgmm-1-thread": OFTEN}),
    Case("song", 4_000, BASIC | CONVERGED | FAISS),
    Case("sift", 1_000, BASIC | CONVERGED | FAISS | {"minibatch": ONCE}),
    Case("speech", 1_000, BASIC | CONVERGED | FAISS | {"minibatch": ONCE}),
    Case("cifar10", 500, BASIC | CONVERGED | FAISS),
    Case("covtype", 1_000, BASIC | CONVERGED | FAISS),
    Case("fashion_mnist", 1_000, BASIC | CONVERGED | FAISS),
    Case("flights", 1_000, BASIC | CONVERGED | FAISS),
    Case("zh_words", 1_000, BASIC | CONVERGED | FAISS),
    Case("sift", 4_000, BASIC),
    Case("speech", 200, BASIC | FAISS),
    Case("speech", 5_000, dict.fromkeys(BASIC, ONCE)),
    Case("glove50", 16_000, BASIC | CONVERGED | FAISS),
)
RACE = (*FULL, *OTHERS)
HEADLINE = (
    ("glove50", 1_000),
    ("kdd_bio", 500),
    ("word_pieces", 1_000),
    ("song", 4_000),
    ("sift", 1_000),
    ("speech", 1_000),
)


def given(datasets: list[str], clusters: list[int], names: list[str], repeats: int) -> list[Case]:
    """Every contender on every problem that the arguments of the command line name."""
    return [Case(data, m, dict.fromkeys(names, repeats)) for data in datasets for m in sorted(set(clusters))]

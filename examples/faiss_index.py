"""A faiss IVF index with the centers of dgmm as its coarse quantizer.

faiss trains its own quantizer by k-means, which compares every row with every center. With many lists this is the
slow part of building an index; here D-GMM does it instead.

python examples/faiss_index.py          (needs faiss-cpu)
"""

import dgmm
import faiss
import numpy as np


def vectors(rows: int, columns: int = 32) -> np.ndarray:
    """Rows of uneven density, like embeddings."""
    rng = np.random.default_rng(0)
    places = rng.standard_normal((500, columns)) * rng.uniform(0.5, 2, size=(500, 1))
    return (places[rng.integers(500, size=rows)] + 0.5 * rng.standard_normal((rows, columns))).astype(np.float32)


def build(X: np.ndarray, centers: np.ndarray) -> faiss.IndexIVFFlat:
    """An index with one list for each center."""
    columns = X.shape[1]
    quantizer = faiss.IndexFlatL2(columns)
    quantizer.add(centers)
    index = faiss.IndexIVFFlat(quantizer, columns, len(centers))
    index.train(X[:1])  # the quantizer is complete, so there is nothing left to train
    index.add(X)
    return index


def recall(index: faiss.Index, queries: np.ndarray, truth: np.ndarray, k: int = 10) -> float:
    """The share of the true k nearest rows that the index finds."""
    _, found = index.search(queries, k)
    return float(np.mean([len(set(a) & set(b)) / k for a, b in zip(found, truth, strict=True)]))


def main(rows: int = 50_000, lists: int = 400) -> dict[str, float]:
    everything = vectors(rows + 500)
    X, queries = everything[:rows], everything[rows:]
    exact = faiss.IndexFlatL2(X.shape[1])
    exact.add(X)
    _, truth = exact.search(queries, 10)

    model = dgmm.DGMM(lists, random_state=0).fit(X)
    ours = build(X, np.ascontiguousarray(model.cluster_centers_, dtype=np.float32))
    theirs = faiss.IndexIVFFlat(faiss.IndexFlatL2(X.shape[1]), X.shape[1], lists)
    theirs.train(X)
    theirs.add(X)

    result = {}
    for name, index in (("dgmm", ours), ("faiss", theirs)):
        index.nprobe = 8
        result[name] = recall(index, queries, truth)
        uneven = index.invlists.imbalance_factor()
        print(f"lists by {name:5}: recall@10 {result[name]:.3f} in 8 of {lists} lists, imbalance {uneven:.2f}")
    return result


if __name__ == "__main__":
    main()

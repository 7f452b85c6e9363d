"""Code of a user for mypy --strict: every public name of the package has types."""

from typing import Any

import dgmm
import numpy as np
from numpy.typing import NDArray


def stop_early(event: dgmm.Event) -> bool:
    return event.stage == "em" and event.iteration >= 3 and event.change < 1e-2


def main() -> None:
    X: NDArray[np.float32] = np.random.default_rng(0).standard_normal((500, 4), dtype=np.float32)
    model = dgmm.DGMM(20, truncation=3, random_state=0, callback=stop_early, keep_on_interrupt=True).fit(X)
    centers: NDArray[Any] = model.cluster_centers_
    labels: NDArray[np.int32] = model.predict(X)
    near: dgmm.TopK = model.top_k(X, 3)
    distances: NDArray[Any] = near.distances
    dense: NDArray[Any] = model.predict_proba(X)
    entries: int = model.predict_proba(X, sparse=True).nnz
    drawn, origin = model.sample(10, random_state=0)
    neighbors: NDArray[np.int64] = model.centroid_neighbors_
    criteria: tuple[float, float] = model.bic(X), model.aic(X)
    report: dgmm.Report = model.report(X)
    page: str = report.to_html()
    coreset: dgmm.Coreset = dgmm.lightweight_coreset(X, 100, random_state=0)
    others: list[dgmm.KMeans | dgmm.VCGMM | dgmm.ExactGMM] = [dgmm.KMeans(5), dgmm.VCGMM(5), dgmm.ExactGMM(5)]
    errors = [dgmm.quantization_error(X, m.fit(coreset.points, None, coreset.weights).cluster_centers_) for m in others]
    shapes = [a.shape for a in (centers, labels, distances, dense, drawn, origin, neighbors)]
    print(shapes, entries, criteria, len(page), report.to_dict()["audit"], min(errors))


if __name__ == "__main__":
    main()

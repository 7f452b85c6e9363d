"""Quick start: fit many clusters, query new rows, save the model.

python examples/quick_start.py
"""

from pathlib import Path

import dgmm
import numpy as np


def main(folder: Path = Path()) -> dict[str, float]:
    # 30,000 rows around 300 points in 16 columns; the last 1,000 are held out.
    rng = np.random.default_rng(0)
    truth = rng.uniform(-1, 1, size=(300, 16))
    X = truth[rng.integers(300, size=30_000)] + 0.3 * rng.standard_normal((30_000, 16))
    seen, unseen = np.split(X.astype(np.float32), [29_000])

    model = dgmm.DGMM(n_clusters=300, random_state=0).fit(seen)
    print(f"{model.n_iter_} iterations, converged: {model.converged_}, standard deviation {model.variance_**0.5:.3f}")

    nearest = model.top_k(unseen, 2)
    margin = float((nearest.distances[:, 1] / nearest.distances[:, 0]).mean())
    print(f"unseen rows are on average {margin:.1f} times as far from their second cluster as from their first")

    path = folder / "quick_start.safetensors"
    model.save(path)
    again = dgmm.load(path)
    assert (again.predict(unseen) == model.predict(unseen)).all()
    print(f"saved and loaded again: {path}")

    error = dgmm.quantization_error(unseen, model.cluster_centers_) / len(unseen)
    print(f"mean squared distance of unseen rows: {error:.3f}; {16 * 0.3**2:.3f} is that of the true centers")
    return {"margin": margin, "error": error}


if __name__ == "__main__":
    main()

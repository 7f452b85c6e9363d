"""Fits rows that are spread over the worker processes of a Dask cluster: `python examples/dask_cluster.py`.

The cluster here is a local one. For yours, pass its address to `Client`, and load the rows with Dask, for example from
Parquet files. Needs the extra "dask".
"""

import time

import dask.array as da
import dgmm.dask
import numpy as np
from dask.distributed import Client, LocalCluster


def make_rows(rows: int, columns: int, partitions: int) -> da.Array:
    """Rows around 500 points, generated on the workers when they are needed."""
    places = np.random.default_rng(0).uniform(-5, 5, size=(500, columns)).astype("float32")
    size = -(-rows // partitions)
    noise = da.random.default_rng(0).normal(0, 0.3, size=(rows, columns), chunks=(size, columns)).astype("float32")

    def around_places(block: np.ndarray) -> np.ndarray:
        return block + places[np.arange(len(block)) % len(places)]

    return noise.map_blocks(around_places, dtype="float32")


def main(rows: int = 1_000_000, columns: int = 16, clusters: int = 500, workers: int = 2) -> dict[str, float]:
    with LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster):
        X = make_rows(rows, columns, partitions=4 * workers)

        def tell(event: dgmm.Event) -> None:
            if event.stage == "em":
                print(f"iteration {event.iteration}: lower bound {event.lower_bound:.3f} after {event.seconds:.1f} s")

        began = time.perf_counter()
        model = dgmm.dask.DGMM(clusters, random_state=0, callback=tell).fit(X)
        seconds = time.perf_counter() - began
        sizes = da.bincount(model.labels_, minlength=clusters).compute()
    error = model.inertia_ / (rows * columns)
    print(f"{rows} rows on {workers} workers, {clusters} clusters in {seconds:.1f} s: mean squared error {error:.4f}")
    return {"error": error, "smallest": int(sizes.min()), "rows": int(sizes.sum())}


if __name__ == "__main__":
    main()

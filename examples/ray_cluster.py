"""Fits rows that are spread over a Ray cluster, with the parts of `dgmm.shards`: `python examples/ray_cluster.py`.

Everything that Ray needs is in `fit`; for any other engine that can call functions elsewhere it looks the same. Shards
and memberships are objects in Ray's store, which Ray recomputes if it loses them. Needs `pip install ray`.
"""

from collections.abc import Callable, Sequence

import dgmm
import numpy as np
import ray
from dgmm import shards


def fit(estimator: dgmm.DGMM, blocks: Sequence[np.ndarray]) -> dgmm.DGMM:
    """Fit the rows of the blocks; each block becomes a shard."""
    remote: Callable = ray.remote
    shard_of = remote(lambda rows, first: shards.Shard(rows, first_row=first))
    summarize = remote(lambda shard, rows: shard.summarize(estimator, rows))
    step = remote(lambda shard, round, known: shard.step(round, known, n_threads=1)).options(num_returns=2)
    merge = remote(lambda first, second: shards.merge([first, second]))
    labels = remote(lambda known: known.labels())

    starts = np.cumsum([0, *map(len, blocks)]).tolist()
    parts = [shard_of.remote(block, first) for block, first in zip(blocks, starts[:-1], strict=True)]
    summaries = ray.get([summarize.remote(part, starts[-1]) for part in parts])
    trainer = shards.Trainer(estimator, shards.merge_summaries(summaries))
    known = [None] * len(parts)
    while not trainer.finished:
        sent = ray.put(trainer.round)
        steps = [step.remote(part, sent, kept) for part, kept in zip(parts, known, strict=True)]
        sums, known = [statistics for statistics, _ in steps], [kept for _, kept in steps]
        while len(sums) > 1:  # neighbors first, so that the sum has the bits of a fit in one process
            pairs = [merge.remote(*sums[i : i + 2]) for i in range(0, len(sums) - 1, 2)]
            sums = pairs + sums[2 * len(pairs) :]
        trainer.absorb(ray.get(sums[0]))
    return trainer.to_estimator(np.concatenate(ray.get([labels.remote(kept) for kept in known])))


def main(rows: int = 200_000, clusters: int = 200) -> dict[str, float]:
    random = np.random.default_rng(0)
    places = random.uniform(-5, 5, size=(clusters, 8)).astype("float32")
    X = places[random.integers(clusters, size=rows)] + random.normal(0, 0.3, size=(rows, 8)).astype("float32")
    size = -(-rows // 4)
    parts = [shards.Shard(X[i : i + size], first_row=i) for i in range(0, rows, size)]
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
    try:
        model = fit(dgmm.DGMM(clusters, random_state=0), [part.rows for part in parts])
    finally:
        ray.shutdown()
    here = shards.fit(dgmm.DGMM(clusters, random_state=0), parts)
    same = np.array_equal(model.cluster_centers_, here.cluster_centers_)
    error = model.inertia_ / X.size
    print(f"{rows} rows, {clusters} clusters: mean squared error {error:.4f}; the bits of a fit in one process: {same}")
    return {"error": error, "same": same}


if __name__ == "__main__":
    main()

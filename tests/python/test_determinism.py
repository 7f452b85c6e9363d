"""The same seed gives the same bits, whatever the number of threads."""

import dgmm
import numpy as np
import pytest
from support import ALL, DTYPES, SYSTEMS, blobs, quiet_fit


def bits(model):
    history = {name: values for name, values in model.history_.items() if name != "seconds"}
    return (
        model.cluster_centers_.tobytes(),
        model.labels_.tobytes(),
        {name: values.tobytes() for name, values in history.items()},
        model.variance_.hex(),
        model.inertia_.hex(),
        model.lower_bound_.hex(),
        model.n_distance_evals_,
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("setting", ["plain", "weighted", "coreset"])
def test_the_number_of_threads_changes_no_bit(name, dtype, setting):
    X = blobs(20_011, 5, 40, spread=0.7, dtype=dtype)  # ten blocks, the last one short
    weights = np.random.default_rng(0).exponential(size=len(X)) if setting == "weighted" else None
    size = 9000 if setting == "coreset" else None

    def fit(threads):
        model = SYSTEMS[name](60, random_state=7, n_threads=threads, coreset_size=size, max_iter=5, tol=0)
        return bits(quiet_fit(model, X, weights))

    one = fit(1)
    for threads in (2, 3, 7):
        assert fit(threads) == one


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("init", ["auto", "afk-mc2", "hierarchical", "k-means++", "random"])
def test_every_start_is_the_same_for_any_number_of_threads(init, name):
    X = blobs(9000, 4, 30)
    fits = [quiet_fit(SYSTEMS[name](250, init=init, random_state=1, n_threads=t, max_iter=2), X) for t in (1, 2, 7)]
    assert bits(fits[0]) == bits(fits[1]) == bits(fits[2])


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_seed_decides_and_different_seeds_differ(name):
    X = blobs(3000, 4, 20)
    one, again, other = (quiet_fit(SYSTEMS[name](30, random_state=seed, max_iter=3), X) for seed in (0, 0, 1))
    assert bits(one) == bits(again)
    assert bits(one) != bits(other)


def test_random_states_are_drawn_from_and_none_is_fresh():
    X = blobs(500, 2, 5)

    def first(random_state):
        return dgmm.afkmc2(X, 5, random_state=random_state)[1].tolist()

    state = np.random.RandomState(5)
    drawn = [first(state), first(state)]
    assert drawn[0] != drawn[1]
    assert first(np.random.RandomState(5)) == drawn[0]
    assert len({tuple(first(None)) for _ in range(20)}) > 1
    assert first(np.int64(3)) == first(3)
    assert first(2**64 - 1) != first(0)


@pytest.mark.parametrize("cls", ALL)
def test_answers_do_not_depend_on_threads_or_on_the_other_rows(cls):
    X = blobs(5000, 6, 10, dtype=np.float32)
    model = quiet_fit(cls(20, random_state=0, n_threads=1), X)
    labels, distances, logs = model.predict(X), model.transform(X), model.score_samples(X)
    model.set_params(n_threads=3)
    np.testing.assert_array_equal(model.predict(X), labels)
    np.testing.assert_array_equal(model.transform(X), distances)
    np.testing.assert_array_equal(model.score_samples(X), logs)
    np.testing.assert_array_equal(model.transform(X[1234:1239]), distances[1234:1239])


@pytest.mark.parametrize("cls", ALL)
def test_of_several_runs_the_best_is_kept_whole(cls):
    X = blobs(2000, 3, 15, spread=0.2)
    single = quiet_fit(cls(15, random_state=3), X)
    best = quiet_fit(cls(15, random_state=3, n_init=8), X)
    assert best.lower_bound_ >= single.lower_bound_
    np.testing.assert_array_equal(best.history_["lower_bound"].shape, (best.n_iter_,))
    assert best.inertia_ == pytest.approx(((X - best.cluster_centers_[best.labels_]) ** 2).sum())

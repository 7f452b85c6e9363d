"""The parts of a fit over shards: the same bits in any order and in any process."""

import itertools
import multiprocessing
import pickle
import signal
import threading
import time

import dgmm
import numpy as np
import pytest
from dgmm import shards
from dgmm._training import tree
from sklearn.base import clone
from support import blobs, quiet_fit

ROWS, CUTS = 3000, [0, 700, 1500, 1800, 2900, 3000]
SYSTEMS = {
    "DGMM": dgmm.DGMM(20, random_state=1),
    "DGMM grouped": dgmm.DGMM(120, engine="grouped", random_state=1, max_iter=6, tol=0),
    "DGMM pointwise": dgmm.DGMM(120, engine="pointwise", random_state=1, max_iter=6, tol=0),
    "VCGMM": dgmm.VCGMM(120, random_state=1, max_iter=6, tol=0),
    "ExactGMM": dgmm.ExactGMM(20, random_state=1, max_iter=6, tol=0),
    "KMeans": dgmm.KMeans(20, random_state=1),
}


def parts(dtype=np.float32, weights=None):
    X = blobs(ROWS, 4, 60, dtype=dtype)
    cut = list(itertools.pairwise(CUTS))
    return [shards.Shard(X[a:b], None if weights is None else weights[a:b], a) for a, b in cut]


def fit(estimator, pieces, *, order=1, journey=lambda x: x, merge=shards.merge):
    """The loop of the documentation; shards in another order, and everything sent somewhere in between."""
    total = sum(map(len, pieces))
    summaries = [journey(piece.summarize(estimator, total)) for piece in pieces]
    trainer = shards.Trainer(estimator, shards.merge_summaries(summaries))
    known = [None] * len(pieces)
    while not trainer.finished:
        sums = [None] * len(pieces)
        for i in range(len(pieces))[::order]:
            statistics, kept = pieces[i].step(journey(trainer.round), known[i])
            sums[i], known[i] = journey(statistics), journey(kept)
        trainer.absorb(merge(sums))
    return trainer.to_estimator(np.concatenate([kept.labels() for kept in known]))


def assert_same(a, b):
    np.testing.assert_array_equal(a.cluster_centers_, b.cluster_centers_)
    np.testing.assert_array_equal(a.labels_, b.labels_)
    assert (a.variance_, a.inertia_, a.lower_bound_) == (b.variance_, b.inertia_, b.lower_bound_)
    np.testing.assert_array_equal(a.history_["lower_bound"], b.history_["lower_bound"])


def over_the_wire(value):
    return pickle.loads(pickle.dumps(value, protocol=5))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", SYSTEMS)
def test_order_and_journeys_change_no_bit(name, dtype):
    pieces, estimator = parts(dtype), SYSTEMS[name]
    plain = fit(estimator, pieces)
    assert plain.cluster_centers_.dtype == dtype
    assert plain.labels_.shape == (ROWS,)
    assert plain.n_iter_ > 1
    assert_same(fit(estimator, pieces, order=-1, journey=over_the_wire), plain)
    pairs = fit(estimator, pieces, merge=lambda sums: tree(sums, lambda a, b: shards.merge([a, b])))
    assert_same(pairs, plain)
    assert_same(shards.fit(estimator, pieces), plain)


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_change_no_bit(threads):
    pieces = parts()
    estimator = SYSTEMS["DGMM grouped"]
    assert_same(shards.fit(clone(estimator).set_params(n_threads=threads), pieces), shards.fit(estimator, pieces))


def test_one_shard_with_few_rows_is_the_plain_fit():
    X = blobs(5000, 3, 12, dtype=np.float32)
    for estimator in (
        dgmm.KMeans(12, random_state=3),
        dgmm.ExactGMM(12, random_state=3),
        dgmm.DGMM(12, random_state=3),
    ):
        assert_same(shards.fit(estimator, [shards.Shard(X)]), clone(estimator).fit(X))


def test_weight_two_is_the_row_twice():
    X = blobs(900, 3, 9)
    start = {"random_state": 0, "tol": 0, "max_iter": 5}
    weighted = shards.fit(dgmm.KMeans(9, **start), [shards.Shard(X, 2.0)])
    once = shards.fit(dgmm.KMeans(9, **start), [shards.Shard(X)])
    np.testing.assert_allclose(weighted.cluster_centers_, once.cluster_centers_)
    np.testing.assert_allclose(weighted.inertia_, 2 * once.inertia_)


def test_rows_are_not_copied_and_not_changed():
    X = blobs(500, 3, 5, dtype=np.float32)
    before = X.copy()
    shard = shards.Shard(X)
    assert np.shares_memory(shard.rows, X)
    shards.fit(dgmm.KMeans(5, random_state=0), [shard])
    np.testing.assert_array_equal(X, before)


def test_memberships_are_not_changed_by_a_step():
    pieces, estimator = parts(), SYSTEMS["DGMM grouped"]
    trainer = shards.Trainer(estimator, shards.merge_summaries([p.summarize(estimator, ROWS) for p in pieces]))
    _, first = pieces[0].step(trainer.round)
    before = first.to_bytes()
    once, again = pieces[0].step(trainer.round, first), pieces[0].step(trainer.round, first)
    assert first.to_bytes() == before
    assert once[0].to_bytes() == again[0].to_bytes()
    assert once[1].to_bytes() == again[1].to_bytes()


def test_a_callback_hears_of_the_fit_and_can_end_it():
    events = []

    def three(event):
        events.append(event)
        return event.iteration == 3

    model = shards.fit(dgmm.KMeans(20, random_state=1, tol=0, callback=three), parts())
    assert [event.stage for event in events] == ["seeding", "em", "em", "em"]
    assert model.n_iter_ == 3


def test_ctrl_c_stops_a_step_within_a_second():
    X = np.random.default_rng(0).normal(size=(1_000_000, 32)).astype(np.float32)
    estimator = dgmm.KMeans(200_000, random_state=0, init="random", max_iter=1, n_threads=1)
    shard = shards.Shard(X)
    trainer = shards.Trainer(estimator, shard.summarize(estimator, len(X)))
    sent = []

    def interrupt():
        sent.append(time.perf_counter())
        signal.raise_signal(signal.SIGINT)

    threading.Timer(0.3, interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        shard.step(trainer.round, n_threads=1)
    # It takes a fraction of a second, longer on a busy machine; the step would take minutes.
    assert time.perf_counter() - sent[0] < 30


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: shards.Shard([[1, np.nan]], None, 7).summarize(dgmm.KMeans(1, random_state=0)), r"X\[7, 1\] is NaN"),
        (lambda: shards.Shard([[1.0, 2.0]], first_row=-1), r"first_row is -1; it must be an integer, at least 0"),
        (lambda: shards.Shard([[1.0, 2.0]], [1.0, 2.0]), r"sample_weight has shape \(2,\); it must be \(1,\)"),
        (lambda: shards.merge([]), r"statistics is empty"),
        (lambda: shards.merge_summaries([]), r"summaries is empty"),
        (lambda: shards.fit(dgmm.KMeans(2, random_state=0), []), r"shards is empty"),
        (lambda: shards.fit(dgmm.KMeans(2, random_state=0, n_init=3), parts()), r"n_init is 3; .* must be 1"),
        (lambda: shards.fit(dgmm.KMeans(2, random_state=0, init=np.ones((2, 3))), parts()), r"init has shape \(2, 3\)"),
        (lambda: shards.Round.from_bytes(b"dgmm"), r"these bytes do not hold a round"),
        (lambda: shards.Statistics.from_bytes(b""), r"these bytes do not hold statistics"),
        (lambda: shards.Memberships.from_bytes(b"dgmm\1S\4"), r"these bytes do not hold memberships"),
    ],
)
def test_bad_input_is_refused_by_name(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_trainer_that_was_pickled_goes_on():
    pieces, estimator = parts(), SYSTEMS["DGMM grouped"]
    plain = fit(estimator, pieces)
    trainer = shards.Trainer(estimator, shards.merge_summaries([p.summarize(estimator) for p in pieces]))
    known = [None] * len(pieces)
    while not trainer.finished:
        trainer = over_the_wire(trainer)
        steps = [piece.step(trainer.round, kept) for piece, kept in zip(pieces, known, strict=True)]
        known = [kept for _, kept in steps]
        trainer.absorb(shards.merge([statistics for statistics, _ in steps]))
    assert_same(trainer.to_estimator(np.concatenate([kept.labels() for kept in known])), plain)


def test_types_do_not_mix():
    single, double = parts(np.float32), parts(np.float64)
    estimator = dgmm.KMeans(5, random_state=0)
    trainer = shards.Trainer(estimator, single[0].summarize(estimator, ROWS))
    with pytest.raises(TypeError, match="must be of one type, float32 or float64"):
        double[0].step(trainer.round)
    other = shards.Trainer(estimator, double[0].summarize(estimator, ROWS))
    with pytest.raises(TypeError, match="must be of one type"):
        shards.merge([single[0].step(trainer.round)[0], double[0].step(other.round)[0]])
    with pytest.raises(TypeError, match=r"estimator is 3; it must be an estimator of dgmm"):
        single[0].summarize(3, ROWS)
    with pytest.raises(TypeError, match="random_state is None; fits over shards need an integer"):
        single[0].summarize(dgmm.KMeans(2), ROWS)


def in_child(queue):
    queue.put(fit(SYSTEMS["DGMM grouped"], parts()).cluster_centers_)


def test_a_forked_process_can_go_on_with_all_parts():
    here = fit(SYSTEMS["DGMM grouped"], parts())  # has used its threads before the fork
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=in_child, args=(queue,))
    child.start()
    there = queue.get(timeout=60)
    child.join(60)
    np.testing.assert_array_equal(there, here.cluster_centers_)


def test_messages_take_at_most_twelve_bytes_per_number_of_the_centers_and_the_entries_of_s():
    X, clusters = blobs(60_000, 32, 1000, dtype=np.float32), 1000
    estimator = dgmm.DGMM(clusters, random_state=0, tol=0, max_iter=5)
    shard = shards.Shard(X)
    trainer = shards.Trainer(estimator, shard.summarize(estimator, len(X)))
    kept = None
    while not trainer.finished:
        sent, (statistics, kept) = trainer.round, shard.step(trainer.round, kept)
        if sent.iteration > 0:
            # 8 bytes per entry and direction, with at most 64 entries per cluster.
            bound = 12 * clusters * 32 + 2 * 8 * 64 * clusters
            assert len(pickle.dumps(sent)) + len(pickle.dumps(statistics)) <= 1.1 * bound
        trainer.absorb(statistics)


def test_a_fit_over_shards_is_about_as_good_as_the_plain_fit():
    X = blobs(20_000, 8, 200, dtype=np.float32)
    pieces = [shards.Shard(X[i : i + 5000], first_row=i) for i in range(0, 20_000, 5000)]
    plain = quiet_fit(dgmm.DGMM(200, random_state=0), X)
    assert shards.fit(dgmm.DGMM(200, random_state=0), pieces).inertia_ < 1.03 * plain.inertia_

"""This version reads models of earlier versions, and they give the same answers."""

import pickle
import warnings
from pathlib import Path

import dgmm
import numpy as np
import pytest
from make_fixture import DATA, NAMES, rows

FILES = sorted(path.name for path in DATA.glob("*-*.safetensors"))


def test_there_are_fixtures_of_this_version():
    version = ".".join(dgmm.__version__.split(".")[:2])
    names = {f"{name}-{version}.safetensors" for name in NAMES}
    assert names <= set(FILES), "python tests/python/make_fixture.py writes them"


@pytest.mark.parametrize("name", FILES)
def test_files_and_pickles_of_this_version_are_read(name):
    path = Path(DATA / name)
    loaded = dgmm.load(path)
    with warnings.catch_warnings():
        # scikit-learn may have another version than the pickle.
        warnings.simplefilter("ignore")
        pickled = pickle.loads(path.with_suffix(".pkl").read_bytes())
    X = rows().astype(loaded.cluster_centers_.dtype) + (1 if "cosine" in name else 0)
    assert type(loaded).__name__ == type(pickled).__name__ == name.split("-")[0]
    np.testing.assert_array_equal(loaded.cluster_centers_, pickled.cluster_centers_)
    np.testing.assert_array_equal(loaded.labels_, pickled.labels_)
    for model in (loaded, pickled):
        # A row may be as near to another cluster: then rounding decides, which differs between instruction sets.
        assert (model.predict(X) == model.labels_).mean() > 0.98
        np.testing.assert_array_equal(model.score_samples(X), pickled.score_samples(X))
        if name.startswith("GaussianMixture"):
            assert model.covariances_.shape == (9, 3)
            assert model.n_components == 9
            continue
        Y = X / np.linalg.norm(X, axis=1, keepdims=True) if "cosine" in name else X
        own = np.linalg.norm(Y - model.cluster_centers_[model.predict(X)], axis=1)
        nearest = np.linalg.norm(Y[:, None] - model.cluster_centers_[None], axis=2).min(axis=1)
        np.testing.assert_allclose(own, nearest, rtol=1e-5, atol=1e-6)
        assert model.n_clusters == 9

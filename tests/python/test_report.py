"""A report is correct as text, as a dict, and as a page that a browser shows."""

import copy
import json
import os
import re
import shutil
import subprocess
import warnings
import xml.etree.ElementTree as ET

import dgmm
import joblib
import numpy as np
import pandas as pd
import pytest
from support import ALL, blobs, quiet_fit, squared_distances

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="module")
def fitted():
    X = blobs(3000, 4, 150, spread=1.0)
    return quiet_fit(dgmm.DGMM(150, random_state=0), X), X


@pytest.mark.parametrize("cls", ALL)
def test_numbers_are_those_of_the_fit(cls):
    X = blobs(600, 3, 20, spread=1.0)
    model = quiet_fit(cls(20, random_state=0, coreset_size=300, max_iter=4, tol=0), X)
    content = model.report().to_dict()
    assert json.loads(json.dumps(content)) == content
    assert content["estimator"] == cls.__name__
    assert content["settings"] == {**model.get_params()}
    assert content["versions"]["dgmm"] == dgmm.__version__
    assert content["data"] == {"n_rows": 600, "n_columns": 3, "dtype": "float64"}
    assert content["fit"]["seconds"]["total"] == sum(model.seconds_.values())
    assert content["fit"]["n_iter"] == 4
    assert content["fit"]["peak_bytes"] is None or content["fit"]["peak_bytes"] > 10**7
    evaluations = content["evaluations"]
    assert evaluations["stages"] == model.n_distance_evals_
    assert evaluations["exact_kmeans"] == {"coreset": 0, "seeding": 12_000, "em": 48_000, "total": 60_000}
    assert evaluations["share_of_exact"] == sum(model.n_distance_evals_.values()) / 60_000
    assert content["history"]["lower_bound"] == model.history_["lower_bound"].tolist()
    assert content["audit"] is None


def test_sizes_of_clusters_are_counted():
    X = np.array([[0.0]] * 8 + [[5.0]] * 3 + [[9.0]])
    model = quiet_fit(dgmm.KMeans(5, init=np.array([[0.0], [5.0], [9.0], [100.0], [200.0]]), max_iter=1), X)
    model.labels_ = np.array([0] * 8 + [1] * 3 + [2], dtype=np.int32)
    clusters = model.report().to_dict()["clusters"]
    sizes = clusters.pop("sizes")
    expected = {"n_clusters": 5, "empty": 2, "single_point": 1, "median": 1.0, "largest": 8, "largest_is": 0}
    assert clusters == expected
    assert sizes == {"from": [0, 1, 2, 4, 8], "to": [0, 1, 3, 7, 15], "clusters": [2, 1, 1, 0, 1]}


@pytest.mark.parametrize("cls", ALL)
def test_the_audit_compares_with_exact_search(cls):
    X = blobs(3000, 4, 150, spread=1.0)
    model = quiet_fit(cls(150, random_state=0, max_iter=3, tol=0), X)
    squares = squared_distances(X, model.cluster_centers_)
    found = squares[np.arange(3000), model.labels_]
    audit = model.report(X, sample_size=3000).to_dict()["audit"]
    assert audit["what"] == "labels_ of the fit"
    assert audit["true_nearest"] == pytest.approx((squares.argmin(axis=1) == model.labels_).mean(), abs=1e-9)
    assert audit["error_above_exact"] == pytest.approx(found.sum() / squares.min(axis=1).sum() - 1, abs=1e-9)
    if cls in (dgmm.ExactGMM, dgmm.KMeans):
        assert audit["true_nearest"] == 1
        assert audit["error_above_exact"] == 0


def test_the_audit_sees_labels_that_are_wrong(fitted):
    model, X = fitted
    model = copy.deepcopy(model)
    wrong = np.arange(0, 3000, 3)
    model.labels_[wrong] = (model.predict(X[wrong]) + 1) % 150
    audit = model.report(X).to_dict()["audit"]
    assert audit["true_nearest"] == pytest.approx(2 / 3, abs=0.01)
    assert audit["error_above_exact"] > 1


def test_a_sample_is_drawn_from_many_rows_and_other_rows_are_predicted(fitted):
    model, X = fitted
    audit = model.report(X, sample_size=500).to_dict()["audit"]
    assert (audit["rows"], audit["of_rows"], audit["what"]) == (500, 3000, "labels_ of the fit")
    assert model.report(X, sample_size=500).to_dict()["audit"] == audit
    assert model.report(X, sample_size=500, random_state=1).to_dict()["audit"] != audit
    others = model.report(blobs(3000, 4, 150, seed=9)).to_dict()["audit"]
    assert (others["what"], others["true_nearest"]) == ("predict", 1)
    assert model.report(X[:10]).to_dict()["audit"]["what"] == "predict"


def test_names_of_columns_are_compared_once():
    X = pd.DataFrame(blobs(50, 2, 3), columns=["a", "b"])
    model = quiet_fit(dgmm.KMeans(3, random_state=0), X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.report(X).to_dict()["audit"]["what"] == "labels_ of the fit"
        assert model.report(X[:20]).to_dict()["audit"]["what"] == "predict"


def test_constant_data_have_a_report():
    X = np.full((50, 2), 3.0)
    audit = quiet_fit(dgmm.KMeans(1), X).report(X).to_dict()["audit"]
    assert (audit["true_nearest"], audit["error_above_exact"]) == (1, None)


def test_the_text_has_the_numbers(fitted):
    model, X = fitted
    text = str(model.report(X))
    assert text.startswith("Report of DGMM\n")
    for part in ("3,000 x 4, float64", "exact k-means", "peak memory", "true nearest cluster", "random_state       0"):
        assert part in text
    assert f"{model.n_distance_evals_['em']:,}" in text
    assert max(map(len, text.splitlines())) < 100
    assert "Audit" not in str(model.report())
    assert "to_html" in repr(model.report())


def test_a_changed_dict_does_not_change_the_report(fitted):
    report = fitted[0].report()
    report.to_dict()["fit"]["seconds"]["total"] = -1
    assert report.to_dict()["fit"]["seconds"]["total"] > 0


def test_settings_of_any_kind_have_words():
    X = blobs(50, 2, 3)

    def mine(data, n_clusters, random_state):
        return data[:n_clusters]

    for init, words in ((X[:3], "array of shape (3, 2), float64"), (mine, "mine")):
        model = quiet_fit(dgmm.KMeans(3, init=init, random_state=np.random.RandomState(0)), X)
        content = model.report().to_dict()
        assert words in content["settings"]["init"]
        assert content["settings"]["random_state"] == "RandomState"
        json.dumps(content)


def test_a_report_survives_what_a_model_survives(fitted, tmp_path):
    model, X = fitted
    joblib.dump(model, tmp_path / "model")
    assert joblib.load(tmp_path / "model").report(X).to_dict() == model.report(X).to_dict()


def test_a_model_that_knows_less_still_has_a_report(fitted):
    model, X = copy.copy(fitted[0]), fitted[1]
    del model._facts
    report = model.report(X)
    assert report.to_dict()["fit"]["peak_bytes"] is None
    assert report.to_dict()["audit"]["what"] == "predict"
    del model.labels_
    report = model.report(X)
    assert report.to_dict()["evaluations"]["exact_kmeans"] is report.to_dict()["clusters"]["sizes"] is None
    assert "unknown x 4, float64" in str(report)
    assert report.to_html().count("<svg") == 3


def test_the_page_needs_nothing_else_and_trusts_nobody(fitted):
    model = copy.copy(fitted[0])
    model.callback = lambda event: None
    model.callback.__qualname__ = "<script>alert(1)</script>&"
    page = model.report(fitted[1]).to_html()
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    urls = set(re.findall(r"https?://[^\"' <]+", page))
    assert urls == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<(link|img|iframe|script)|url\(|@import", page)
    charts = re.findall(r"<svg.*?</svg>", page, re.S)
    assert len(charts) == 4
    for chart in charts:
        ET.fromstring(chart)
        assert "nan" not in chart
    fragment = model.report()._repr_html_()
    assert fragment.startswith('<div class="dgmm-report">')
    assert "<html" not in fragment


CHECK = """<script>
addEventListener("load", () => {
  const box = element => element.getBoundingClientRect();
  const charts = [...document.querySelectorAll("svg")];
  const spilled = charts.flatMap(chart => [...chart.querySelectorAll("text, rect")].filter(part => {
    const [a, b] = [box(part), box(chart)];
    return a.left < b.left - 1 || a.right > b.right + 1 || a.top < b.top - 1 || a.bottom > b.bottom + 1;
  })).map(part => part.textContent || part.outerHTML);
  const seen = {
    title: document.title, heading: document.querySelector("h1").innerText, charts: charts.length,
    drawn: charts.every(chart => box(chart).width > 250 && box(chart).height > 140),
    bars: document.querySelectorAll("svg rect").length, line: document.querySelector("polyline").points.length,
    tables: [...document.querySelectorAll("h2")].map(heading => heading.innerText), spilled,
    wider: document.documentElement.scrollWidth - innerWidth,
  };
  const out = document.createElement("pre");
  out.id = "seen";
  out.textContent = JSON.stringify(seen);
  document.body.append(out);
});
</script></body>"""


def in_a_browser(page, folder, width):
    (folder / "report.html").write_text(page.replace("</body>", CHECK), encoding="utf-8")
    address = (folder / "report.html").as_uri()
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}"]
    command += [f"--window-size={width},900", "--virtual-time-budget=3000", "--dump-dom", address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    seen = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.S)
    assert seen, done.stdout[-2000:] + done.stderr[-2000:]
    return json.loads(seen[1].replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">"))


@pytest.mark.parametrize("width", [1200, 600])
def test_a_browser_shows_the_page(fitted, tmp_path, width):
    if BROWSER is None:
        reason = "no chromium on the PATH (Debian: apt-get install chromium)"
        assert not os.environ.get("DGMM_NEEDS_BROWSER"), reason
        pytest.skip(reason)
    model, X = fitted
    seen = in_a_browser(model.report(X).to_html(), tmp_path, width)
    assert seen["title"] == seen["heading"] == "Report of DGMM"
    assert seen["charts"] == 4
    assert seen["drawn"]
    assert seen["line"] == model.n_iter_
    assert seen["bars"] > 10
    assert seen["spilled"] == []
    assert seen["wider"] <= 0
    assert seen["tables"][:4] == ["Fit", "Seconds", "Distance evaluations", "Clusters"]
    assert "Audit against exact search" in seen["tables"]

"""The examples run and show what they say."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name):
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"]


def test_every_example_is_tested():
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    assert names == {"quick_start", "colors", "visual_words", "faiss_index", "dask_cluster", "ray_cluster"}


def test_quick_start(tmp_path):
    result = example("quick_start")(tmp_path)
    assert (tmp_path / "quick_start.safetensors").exists()
    assert result["error"] < 1.25 * 16 * 0.3**2


def test_a_photograph_keeps_its_look_with_256_colors(tmp_path):
    result = example("colors")(tmp_path)
    assert (tmp_path / "colors.png").read_bytes().startswith(b"\x89PNG")
    assert result["before"] > 90_000
    assert result["after"] <= 256
    assert result["error"] < 5


def test_visual_words_read_digits_at_least_as_well_as_pixels():
    result = example("visual_words")()
    assert result["words"] > 0.95
    assert result["words"] > result["pixels"]


def test_a_faiss_index_on_our_centers_finds_what_faisses_own_finds():
    pytest.importorskip("faiss", reason="there is no faiss-cpu for this Python")
    result = example("faiss_index")(rows=20_000, lists=200)
    assert result["dgmm"] > 0.95
    assert result["dgmm"] > result["faiss"] - 0.02


def test_a_dask_cluster_fits_rows_that_are_made_there():
    pytest.importorskip("distributed", reason="needs the extra `dask`")
    result = example("dask_cluster")(rows=50_000, columns=4, clusters=50)
    assert result["rows"] == 50_000
    assert result["smallest"] > 0
    assert result["error"] < 5


def test_ray_gives_the_bits_of_a_fit_in_one_process():
    pytest.importorskip("ray", reason="there is no ray for this Python")
    result = example("ray_cluster")(rows=20_000, clusters=100)
    assert result["same"]
    assert result["error"] < 0.5

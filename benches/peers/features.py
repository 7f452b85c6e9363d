"""Descriptors of pictures and sounds that packages carry: gradient histograms (SIFT-like) and cepstra (MFCC)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

STEP, CELL, GRID, TURNS = 3, 4, 4, 8  # pixels between descriptors, pixels per cell, cells per side, orientations
PLAIN = 8.0  # a patch with less gradient than this has no descriptor
FRAME, HOP, FFT, BANDS, CEPSTRA, REACH = 200, 40, 256, 26, 13, 2  # at 8 kHz: 25 ms, 5 ms


def dense_sift(gray: Floats) -> Floats:
    """Descriptors of 16 x 16 patches on a regular grid: 4 x 4 cells of 8 orientations, as Lowe (2004) scales them.

    Neither scale nor rotation is searched for, and no Gaussian window weights the patch: SIFT-like, not SIFT. Values
    are whole numbers from 0 to 255. Patches without contrast are left out.
    """
    rise, run = np.gradient(gray)
    place = (np.arctan2(rise, run) / (2 * np.pi) * TURNS) % TURNS
    low = place.astype(np.intp) % TURNS
    share = (place - np.floor(place)).astype(np.float32)
    size = np.hypot(rise, run)
    planes = np.zeros((TURNS, *gray.shape), dtype=np.float32)
    for turn in range(TURNS):
        planes[turn] = size * ((low == turn) * (1 - share) + ((low + 1) % TURNS == turn) * share)
    windows = np.lib.stride_tricks.sliding_window_view(planes, (CELL, CELL), axis=(1, 2))
    cells = windows.sum(axis=(-1, -2), dtype=np.float32)
    last = CELL * (GRID - 1)
    rows, columns = cells.shape[1] - last, cells.shape[2] - last
    parts = [
        cells[:, y : y + rows : STEP, x : x + columns : STEP].reshape(TURNS, -1).T
        for y in range(0, last + 1, CELL)
        for x in range(0, last + 1, CELL)
    ]
    found = np.concatenate(parts, axis=1)
    norms = np.linalg.norm(found, axis=1)
    found, norms = found[norms >= PLAIN], norms[norms >= PLAIN]
    found = np.minimum(found / norms[:, None], 0.2)
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    return np.minimum(np.floor(512 * found), 255).astype(np.float32)


def mel_filters(rate: int) -> Floats:
    """Triangles that are equally wide on the mel scale: one row per band, one column per frequency."""
    top = 2595 * np.log10(1 + rate / 2 / 700)
    edges = 700 * (10 ** (np.linspace(0, top, BANDS + 2) / 2595) - 1)
    frequencies = np.arange(FFT // 2 + 1) * rate / FFT
    low, middle, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    rising = (frequencies - low) / (middle - low)
    falling = (high - frequencies) / (high - middle)
    return np.maximum(0, np.minimum(rising, falling)).astype(np.float32)


def deltas(values: Floats) -> Floats:
    """The slope of each column over 2 frames to each side, by least squares."""
    padded = np.pad(values, ((REACH, REACH), (0, 0)), mode="edge")
    frames = len(values)
    total = sum(
        k * (padded[REACH + k : REACH + k + frames] - padded[REACH - k : REACH - k + frames])
        for k in range(1, REACH + 1)
    )
    return np.asarray(total / (2 * sum(k * k for k in range(1, REACH + 1))), dtype=np.float32)


def mfcc(sound: NDArray[np.int16], rate: int) -> Floats:
    """13 mel cepstra per frame with their first and second slopes: 39 columns. Silent frames are left out."""
    if len(sound) < FRAME + 1:
        return np.empty((0, 3 * CEPSTRA), dtype=np.float32)
    signal = sound.astype(np.float32)
    signal = signal[1:] - np.float32(0.97) * signal[:-1]
    frames = np.lib.stride_tricks.sliding_window_view(signal, FRAME)[::HOP]
    heard = np.abs(frames).max(axis=1) > 0
    spectrum = np.abs(np.fft.rfft(frames * np.hamming(FRAME).astype(np.float32), FFT)) ** 2
    bands = np.log(np.maximum(spectrum @ mel_filters(rate).T, 1.0))
    angles = np.pi / BANDS * (np.arange(BANDS) + 0.5)
    basis = np.sqrt(2 / BANDS) * np.cos(np.arange(CEPSTRA)[:, None] * angles)
    cepstra = (bands @ basis.T).astype(np.float32)
    slopes = deltas(cepstra)
    return np.concatenate([cepstra, slopes, deltas(slopes)], axis=1)[heard]

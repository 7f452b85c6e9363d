"""The colors of a photograph reduced to 256, as for a GIF or a palette; saves the picture before and after.

python examples/colors.py          (needs matplotlib, the extra "plot")
"""

from pathlib import Path

import dgmm
import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_sample_image


def main(folder: Path = Path(), colors: int = 256) -> dict[str, float]:
    photo = load_sample_image("china.jpg")
    pixels = photo.reshape(-1, 3).astype(np.float32)
    # Many pixels have the same color: fit each color once, weighted by how often it occurs.
    distinct, counts = np.unique(pixels, axis=0, return_counts=True)

    model = dgmm.DGMM(colors, random_state=0).fit(distinct, sample_weight=counts)
    palette = model.cluster_centers_.round().clip(0, 255).astype(np.uint8)
    reduced = palette[model.predict(pixels)].reshape(photo.shape)

    before, after = len(distinct), len(np.unique(palette, axis=0))
    error = float(np.sqrt(np.mean((photo.astype(float) - reduced) ** 2)))
    print(f"{before} colors became {after}; root mean square error {error:.2f} of 255")

    figure = Figure(figsize=(12, 4.4), layout="constrained")
    for ax, image, title in zip(
        figure.subplots(1, 2), (photo, reduced), (f"before: {before} colors", f"after: {after} colors"), strict=True
    ):
        ax.imshow(image)
        ax.set_title(title)
        ax.set_axis_off()
    figure.savefig(folder / "colors.png", dpi=110)
    print(f"saved {folder / 'colors.png'}")
    return {"before": before, "after": after, "error": error}


if __name__ == "__main__":
    main()

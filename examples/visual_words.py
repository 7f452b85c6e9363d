"""A codebook of visual words: images as histograms of the patches that they are made of.

Patches of 4 x 4 pixels of scikit-learn's small digits are clustered. Each digit is then described by the words that
occur in each of its quarters, and a linear classifier predicts the digit from that description.

python examples/visual_words.py
"""

import dgmm
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

SIDE = 4


def patches(images: np.ndarray) -> np.ndarray:
    """All patches: images x places x pixels."""
    cut = np.lib.stride_tricks.sliding_window_view(images, (SIDE, SIDE), axis=(1, 2))
    return np.ascontiguousarray(cut.reshape(len(images), -1, SIDE * SIDE), dtype=np.float32)


def histograms(model: dgmm.DGMM, images: np.ndarray) -> np.ndarray:
    """How much of each word there is in each quarter of each image; a patch is shared by the words near it."""
    cut = patches(images)
    words = model.predict_proba(cut.reshape(-1, SIDE * SIDE)).reshape(len(images), 5, 5, -1)
    quarters = [
        words[:, rows, columns].sum(axis=(1, 2))
        for rows in (slice(3), slice(2, 5))
        for columns in (slice(3), slice(2, 5))
    ]
    return np.sqrt(np.concatenate(quarters, axis=1))


def main(words: int = 300) -> dict[str, float]:
    images, digits = load_digits(return_X_y=True)
    images = images.reshape(-1, 8, 8)
    train, test, train_digits, test_digits = train_test_split(images, digits, test_size=0.5, random_state=0)

    model = dgmm.DGMM(words, random_state=0).fit(patches(train).reshape(-1, SIDE * SIDE))
    print(f"{words} words from {len(train) * 25} patches in {sum(model.seconds_.values()):.2f} s")

    def accuracy(describe) -> float:
        reader = LogisticRegression(max_iter=1000).fit(describe(train), train_digits)
        return float(reader.score(describe(test), test_digits))

    result = {
        "pixels": accuracy(lambda images: images.reshape(len(images), -1) / 16),
        "words": accuracy(lambda images: histograms(model, images)),
    }
    print(f"digits recognized: {100 * result['pixels']:.1f} % from pixels, {100 * result['words']:.1f} % from words")
    return result


if __name__ == "__main__":
    main()

"""Data for the examples, without downloads: the text of this repository's license (12 kB), and
scikit-learn's digits.
"""

from pathlib import Path

import torch

LICENSE = Path(__file__).resolve().parent.parent / "LICENSE"


def text_bytes(text=None):
    """The bytes of the file `text`, or of the license, as a tensor."""
    content = Path(text or LICENSE).read_bytes()
    return torch.frombuffer(bytearray(content), dtype=torch.uint8).long()


def windows(batch, sequence, vocab=256, text=None, seed=0):
    """Yields random windows of the text, (batch, sequence), for ever."""
    data = text_bytes(text) % vocab
    if len(data) <= sequence:
        raise ValueError(f"text has {len(data)} bytes, expected more than sequence = {sequence}")
    generator = torch.Generator().manual_seed(seed)
    while True:
        starts = torch.randint(0, len(data) - sequence, (batch,), generator=generator)
        yield torch.stack([data[start : start + sequence] for start in starts])


def digits(batch, image=8, channels=1, seed=0):
    """Yields (images, labels) for ever: images (batch, channels, image, image), float32 in [0,
    1].
    """
    from sklearn.datasets import load_digits

    data = load_digits()
    images, labels = torch.tensor(data.images, dtype=torch.float32) / 16, torch.tensor(data.target)
    scale = image // 8
    images = (
        images.repeat_interleave(scale, 1)
        .repeat_interleave(scale, 2)[:, None]
        .repeat(1, channels, 1, 1)
    )
    generator = torch.Generator().manual_seed(seed)
    while True:
        chosen = torch.randint(0, len(labels), (batch,), generator=generator)
        yield images[chosen].contiguous(), labels[chosen]

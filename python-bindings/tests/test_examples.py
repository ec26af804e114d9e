"""Every example, captured and trained three steps, equals eager."""

import pytest
from comparing import compare
from tandem.capture.model_file import load_model_file

VARIANTS = [
    ("mlp", None, ""),
    ("gpt", None, ""),
    ("gpt", None, "packed=True"),
    ("llama", None, ""),
    ("bert_moe", None, ""),
    ("bert_moe", None, "gate=switch"),
    ("bert_moe", None, "group=batch"),
    ("vit_moe", None, ""),
    ("vit_moe", None, "gate=switch"),
    ("resnet", None, ""),
    ("hf", "gpt2", ""),
    ("hf", "bert", ""),
    ("hf", "llama", ""),
]


@pytest.mark.sample(12)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name,preset,sizes", VARIANTS)
def test_equals_eager(root, name, preset, sizes, dtype):
    file = load_model_file(root / "examples" / f"{name}.py", preset, sizes, dtype)
    model = file.make_model()
    compare(model, file.loss, file.make_optimizer(model), file.batches(3))

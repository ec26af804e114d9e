"""Every example, captured and trained three steps, equals eager."""

import pytest
from comparing import compare
from tandem.model_file import load_model_file

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


# By default they train on the documents, whose next word would change what is compared.
OF_TEXT = ("gpt", "llama", "bert_moe", "hf")


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name,preset,sizes", VARIANTS)
def test_equals_eager(root, name, preset, sizes, dtype):
    text = [f"text={root / 'LICENSE'}"] if name in OF_TEXT else []
    sizes = ",".join([*filter(None, [sizes]), *text])
    file = load_model_file(root / "examples" / f"{name}.py", preset, sizes, dtype)
    model = file.make_model()
    compare(model, file.loss, file.make_optimizer(model), file.batches(3))

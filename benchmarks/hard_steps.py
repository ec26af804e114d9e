"""A model file of steps that are hard to search for their size. A preset is a model.

Two-layer models of `transformers` with biases by position, windows or hashes have few repeated operators. A recurrence
has many live tensors.
"""

import json

import torch
from coverage_cases import MODELS, Model

_REFORMER = {
    "class": "ReformerModelWithLMHead",
    "config": "ReformerConfig",
    "sizes": {
        "vocab_size": 64,
        "hidden_size": 32,
        "attention_head_size": 8,
        "num_attention_heads": 4,
        "attn_layers": ["local", "lsh"],
        "axial_pos_embds": False,
        "feed_forward_size": 64,
        "local_attn_chunk_length": 8,
        "lsh_attn_chunk_length": 8,
        "num_buckets": 2,
        "max_position_embeddings": 64,
        "is_decoder": True,
        "use_cache": False,
        "hash_seed": 1,
    },
    "batch": {"input_ids": ["integers", 64, 8, 16], "labels": ["integers", 64, 8, 16]},
    "loss": "loss",
}
_DESCRIBED = json.loads(MODELS.read_text()) | {"reformer": _REFORMER}
PRESETS = {
    name: {"name": name}
    for name in ("t5", "gemma3_text", "modernbert", "longt5", "reformer", "mamba")
}


def _make_case(name):
    return Model(name, _DESCRIBED[name])


def model(name):
    return _make_case(name).make_model()


def loss(model, batch):
    return model(**batch).loss


def optimizer(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-3)


def batches(name):
    generator = torch.Generator().manual_seed(0)
    while True:
        yield _make_case(name).batch(generator)

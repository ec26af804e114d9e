"""Models of the `transformers` package, unchanged, with random weights."""

import torch
from example_data import windows

PRESETS = {
    "gpt2": dict(kind="gpt2", layers=2, width=32, heads=4, seq=16, batch=16),
    "bert": dict(kind="bert", layers=2, width=32, heads=4, seq=16, batch=16),
    "llama": dict(kind="llama", layers=2, width=32, heads=4, seq=16, batch=16),
}


def _gpt2(layers, width, heads, seq, vocab):
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = dict(n_layer=layers, n_embd=width, n_head=heads, n_positions=seq, vocab_size=vocab)
    return GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0, use_cache=False))


def _bert(layers, width, heads, seq, vocab):
    from transformers import BertConfig, BertForMaskedLM

    sizes = dict(
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=heads,
        intermediate_size=4 * width,
    )
    return BertForMaskedLM(BertConfig(**sizes, max_position_embeddings=seq, vocab_size=vocab))


def _llama(layers, width, heads, seq, vocab):
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = dict(
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=heads,
        intermediate_size=2 * width,
    )
    sizes |= dict(num_key_value_heads=heads // 2, max_position_embeddings=seq, vocab_size=vocab)
    return LlamaForCausalLM(LlamaConfig(**sizes, use_cache=False))


def model(kind, layers, width, heads, seq, vocab=256, **_):
    make = {"gpt2": _gpt2, "bert": _bert, "llama": _llama}[kind]
    return make(layers, width, heads, seq, vocab).train()


def loss(model, batch):
    return model(input_ids=batch["input_ids"], labels=batch["labels"]).loss


def optimizer(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)


def batches(batch, seq, vocab=256, text=None, **_):
    for window in windows(batch, seq, min(vocab, 256), text):
        yield {"input_ids": window, "labels": window.clone()}

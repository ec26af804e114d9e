"""Proposes the models of `coverage_models.json`: small models of `transformers` that train one step in eager.

    python benchmarks/propose_coverage.py proposed.json [--only NAME...] [--heads MASKED_LM ...]

Takes the classes of the installed `transformers`, shrunk to two layers and small widths by the names of a
configuration's fields. Models that do not train in eager are printed to standard error and left out. The list is made
once; `coverage.py` only reads it. Heads for causal language models are many and alike, so it has every other one.
"""

import argparse
import copy
import dataclasses
import json
import re
import signal
import sys
from pathlib import Path

import transformers
from coverage_cases import Model
from transformers.configuration_utils import PretrainedConfig
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

BATCH, LENGTH, VOCABULARY, IMAGE = 8, 16, 64, 32

# (pattern of a field's whole name, the largest value); the first that matches counts.
_INTEGERS = [
    (r"(.*_)?vocab_size(_.*)?", VOCABULARY),
    (r"type_vocab_size", 2),
    (r"num_labels", 3),
    (
        r"(num|n)_(hidden_|encoder_|decoder_)?(hidden_)?layers?|.*(encoder|decoder)_layers|depth|num_(hidden_)?blocks",
        2,
    ),
    (r"num_.*_layers|.*_num_layers|.*_num_hidden_layers|.*_depth", 2),
    (
        r"(num_)?key_value_heads|num_key_value_heads|num_kv_heads|n_head_kv|.*_key_value_heads|.*_kv_heads",
        2,
    ),
    (r"mamba_(n|num)_heads|mamba_num_heads", 4),
    (r"mamba_(d_head|head_dim|headdim)", 16),
    (r".*_head_dim|head_dim|d_kv|attention_head_size|.*_head_size|d_head", 8),
    (r"(num_|n_)?(.*_)?(attention_)?(heads?|n_heads?)", 4),
    (
        r".*n_routed_experts|num_(local_)?experts|num_routed_experts|moe_num_experts|.*_num_experts",
        4,
    ),
    (
        r"num_experts_per_tok.*|moe_top_?k|.*_topk|num_selected_experts|moe_k|expert_top_k|top_k_experts",
        2,
    ),
    (
        r"n_group|topk_group|num_expert_group|n_shared_experts|.*shared_experts|first_k_dense_replace",
        1,
    ),
    (
        r".*(intermediate_size|ffn_dim|feedforward_dim|d_ff|n_inner|mlp_dim|ffn_hidden_size|inner_dim|d_inner)(_.*)?",
        64,
    ),
    (r"(q|kv|o)_lora_rank|.*_lora_rank|.*_rank", 16),
    (r".*(state_size|d_state|ssm_state)(_.*)?", 8),
    (
        r"max_source_positions|max_target_positions|.*position.*|n_ctx|.*context_length|max_seq_len(gth)?|seq_length",
        64,
    ),
    (r".*window_size", 4),
    (r".*sliding_window|attention_window|local_attention|.*chunk_length|chunk_size|block_size", 8),
    (r"rotary_dim|rotary_.*dim", 4),
    (r"image_size|img_size|input_size", IMAGE),
    (r"patch_size|.*patch_size", 8),
    (r"num_mel_bins|feature_size|num_freq_bins|input_feat_per_channel", 16),
    (
        r"(.*_)?(hidden_size|d_model|n_embd|embed_dim|embedding_size|embedding_dim|hidden_dim|emb_dim|dim|width|projection_dim|model_dim|n_embed)(_.*)?",
        32,
    ),
    (
        r"codevector_dim|proj_codevector_dim|tdnn_dim|lru_width|embedding_hidden_size|.*_hidden_size|output_hidden_size",
        32,
    ),
    (r"num_conv_pos_embeddings", 16),
    (r"num_(object_)?queries|num_feature_levels|encoder_n_points|decoder_n_points|num_points", 8),
    (r"num_buckets|num_hash(es|_functions)|num_landmarks|num_codevectors.*", 4),
]
_LISTS = [
    (r"depths|layers_per_stage|num_blocks|layer_depths", lambda i, v: min(v, 1)),
    (r"num_(attention_)?heads|.*num_heads|.*attention_heads", lambda i, v: min(v, 2)),
    (r".*(hidden_sizes|embed_dims|widths|dims|channels|embed_dim|neck_hidden_sizes)", lambda i, v: min(v, 16 * (i + 1))),
    (r"conv_dim|tdnn_dim", lambda i, v: min(v, 16)),
    (r"image_size", lambda i, v: IMAGE),
]  # fmt: skip
_OFF = ("layerdrop", "encoder_layerdrop", "decoder_layerdrop", "apply_spec_augment", "use_cache")
# What names do not say.
_OTHERS = {
    name: {"image_size": 128}
    for name in ("swin", "swinv2", "donut-swin", "maskformer-swin", "swin2sr")
}
_SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}


def _shrink_field(name, value):
    if name in _OFF:
        return type(value)(0)
    if name.endswith("_token_id"):
        return min(value, _SPECIAL.get(name, 3)) if isinstance(value, int) else value
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        for pattern, most in _INTEGERS:
            if re.fullmatch(pattern, name):
                return min(value, most)
    is_list = isinstance(value, (list, tuple)) and value and all(type(v) is int for v in value)
    for pattern, make in _LISTS if is_list else ():
        if re.fullmatch(pattern, name):
            return [make(i, v) for i, v in enumerate(value)]
    return value


def _layer_types(types, layers):
    """The different kinds of layers first: a hybrid stays one."""
    kinds = list(dict.fromkeys(types))
    return (kinds + [kinds[-1]] * layers)[:layers]


def shrunk(config):
    """{field: value} of all that differs from the defaults."""
    sizes = {}
    names = {field.name for field in dataclasses.fields(config)}
    fields = {k: v for k, v in vars(config).items() if k in names}
    for name, value in fields.items():
        if isinstance(value, PretrainedConfig):
            sizes[name] = shrunk(value)
        elif (
            name in ("layer_types", "layers_block_type", "mlp_layer_types", "layer_block_types")
            and value
        ):
            if all(isinstance(v, str) for v in value):
                sizes[name] = _layer_types(value, 2)
        else:
            small = _shrink_field(name, value)
            if repr(small) != repr(value):
                sizes[name] = list(small) if isinstance(small, tuple) else small
    return sizes


def _image(config):
    vision = getattr(config, "vision_config", config)
    size = getattr(vision, "image_size", IMAGE)
    size = size if isinstance(size, int) else IMAGE
    return ["normal", BATCH, getattr(vision, "num_channels", 3), max(size, IMAGE), max(size, IMAGE)]


def _audio(config):
    """Raw sound, or a spectrogram."""
    if hasattr(config, "conv_stride") and hasattr(config, "conv_dim"):
        return {"input_values": ["normal", BATCH, 3200]}
    if hasattr(config, "max_source_positions"):
        return {
            "input_features": [
                "normal",
                BATCH,
                config.num_mel_bins,
                2 * config.max_source_positions,
            ]
        }
    if config.model_type == "audio-spectrogram-transformer":
        return {"input_values": ["normal", BATCH, config.max_length, config.num_mel_bins]}
    return {
        "input_features": ["normal", BATCH, 64, getattr(config, "feature_projection_input_dim", 16)]
    }


def _words(config, kind="integers", length=LENGTH):
    known = getattr(config.get_text_config(), "vocab_size", None) or VOCABULARY
    return [kind, min(known, VOCABULARY), BATCH, length]


def _ids(config):
    return {"input_ids": _words(config)}


def _targets(config, **options):
    return {"labels": _words(config, **options)}


def _decoded(config):
    return {"decoder_input_ids": _words(config), "labels": _words(config)}


_MASK = {"attention_mask": ["padding", BATCH, LENGTH]}
_LABELS = {"labels": ["integers", 2, BATCH]}
# (mapping of transformers, what a batch has, what is trained)
HEADS = {
    "MASKED_LM": (lambda c: _ids(c) | _MASK | _targets(c, kind="few"), "loss"),
    "CAUSAL_LM": (lambda c: _ids(c) | _targets(c), "loss"),
    "SEQ_TO_SEQ_CAUSAL_LM": (lambda c: _ids(c) | _MASK | _decoded(c), "loss"),
    "SEQUENCE_CLASSIFICATION": (lambda c: _ids(c) | _MASK | _LABELS, "loss"),
    "IMAGE_CLASSIFICATION": (lambda c: {"pixel_values": _image(c)} | _LABELS, "loss"),
    "CTC": (lambda c: _audio(c) | _targets(c, length=4), "loss"),
    "AUDIO_CLASSIFICATION": (lambda c: _audio(c) | _LABELS, "loss"),
    "SEMANTIC_SEGMENTATION": (lambda c: {"pixel_values": _image(c), "labels": ["integers", 2, BATCH, *_image(c)[3:]]}, "loss"),
    "SPEECH_SEQ_2_SEQ": (lambda c: _audio(c) | _decoded(c), "loss"),
    "VIDEO_CLASSIFICATION": (lambda c: {"pixel_values": ["normal", BATCH, getattr(c, "num_frames", 8), *_image(c)[2:]]} | _LABELS, "loss"),
    "DEPTH_ESTIMATION": (lambda c: {"pixel_values": _image(c)}, "square"),
    "ZERO_SHOT_IMAGE_CLASSIFICATION": (lambda c: _ids(c) | _MASK | {"pixel_values": _image(c)}, "contrast"),
    "IMAGE": (lambda c: {"pixel_values": _image(c)}, "square"),
    "TEXT_ENCODING": (lambda c: _ids(c) | _MASK, "square"),
    "TOKEN_CLASSIFICATION": (lambda c: _ids(c) | _MASK | {"labels": ["integers", 2, BATCH, LENGTH]}, "loss"),
    "QUESTION_ANSWERING": (lambda c: _ids(c) | _MASK | {f"{e}_positions": ["integers", LENGTH, BATCH] for e in ("start", "end")}, "loss"),
    "BACKBONE": (lambda c: {"pixel_values": _image(c)}, "maps"),
}  # fmt: skip


def _mapping(head):
    name = "MODEL_FOR_IMAGE_MAPPING_NAMES" if head == "IMAGE" else f"MODEL_FOR_{head}_MAPPING_NAMES"
    return getattr(modeling_auto, name)


def propose(name, head):
    """The case of a configuration's name."""
    class_name = _mapping(head)[name]
    class_name = class_name if isinstance(class_name, str) else class_name[0]
    config_class = CONFIG_MAPPING[name]
    sizes = shrunk(config_class()) | _OTHERS.get(name, {})
    config = config_class(**copy.deepcopy(sizes))
    batch, loss = HEADS[head]
    return {
        "class": class_name,
        "config": config_class.__name__,
        "sizes": sizes,
        "batch": batch(config),
        "loss": loss,
    }


_LONGEST = 20  # seconds for a step of eager


def _too_long(*_):
    raise TimeoutError(f"over {_LONGEST} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path, help="what it has is kept, and not tried again")
    parser.add_argument("--only", nargs="*", default=())
    parser.add_argument("--heads", nargs="*", default=list(HEADS))
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    found = json.loads(options.output.read_text()) if options.output.exists() else {}
    signal.signal(signal.SIGALRM, _too_long)
    for head in options.heads:
        for name in _mapping(head):
            if name in found or (options.only and name not in options.only):
                continue
            signal.alarm(_LONGEST)
            try:
                case = json.loads(json.dumps(propose(name, head)))
                Model(name, case).in_eager()
            except Exception as error:
                text = str(error).splitlines()[0] if str(error) else ""
                print(
                    f"{name} {head}: {type(error).__name__}: {text[:160]}",
                    file=sys.stderr,
                    flush=True,
                )
                continue
            finally:
                signal.alarm(0)
            found[name] = case
            options.output.write_text(json.dumps(found, indent=1))
            print(f"{name} {head}: trains", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()

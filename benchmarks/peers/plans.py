"""The plan of Tandem that splits the same tensors as a peer."""

PLANS = {
    "ddp": "data-parallel",
    "fsdp": "zero",
    "fsdp-kept": "zero2",
    "tensor": "tensor-parallel",
    "expert": "expert-parallel",
}

"""The plan of Tandem that splits the same tensors as a peer."""

PLANS = {
    "ddp": "data-parallel",
    "fsdp": "zero",
    "tensor": "tensor-parallel",
    "expert": "expert-parallel",
}

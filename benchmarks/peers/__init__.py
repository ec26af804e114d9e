"""What Tandem is compared with: the same models trained by PyTorch's own ways to distribute them, on gloo."""

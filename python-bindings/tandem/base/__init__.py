"""Shared by all packages: the compiled module, files, trees of tensors, options, the processes of a job."""

"""What all packages use: the compiled module, files, trees of tensors, options, the processes of a job."""

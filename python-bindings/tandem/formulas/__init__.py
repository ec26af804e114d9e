"""What PyTorch computes in one piece, by operators of the `nn` dialect: rules of the second trace."""

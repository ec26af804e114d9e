"""From a model, a loss, an optimizer and a batch to a module of `nn` operators."""

"""PyTorch modules: what torch.export traces, node by node."""

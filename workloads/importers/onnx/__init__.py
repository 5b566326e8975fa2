"""ONNX files: shapes of a graph that a stranger may have written, node by node."""

"""Taking a policy to where it runs: one ONNX file, and the guard that watches it there."""

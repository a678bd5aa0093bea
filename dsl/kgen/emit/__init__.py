"""From tile IR to text: Triton, CUDA, Python, and readable dumps."""

raise RuntimeError("not torch")

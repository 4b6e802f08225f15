raise RuntimeError("not random")

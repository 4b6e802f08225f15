def shifted(x, dim):
    return x - x.amax(dim, keepdim=True)

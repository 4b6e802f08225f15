def soft_max(x, dim=-1):
    return x

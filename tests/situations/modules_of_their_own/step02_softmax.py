from exercises.helper import shifted


def softmax(x, dim=-1):
    weights = shifted(x, dim).exp()
    return weights / weights.sum(dim, keepdim=True)

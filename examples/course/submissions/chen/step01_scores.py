import torch


def dot_product_scores(query, key):
    # row = query, column = key
    return torch.matmul(query, key.mT)


def scaled_scores(query, key):
    return dot_product_scores(query, key) / query.size(-1)

"""1단계: 질의(query)와 키(key)의 내적"""
import math

import torch


def dot_product_scores(query, key):
    # i번째 질의와 j번째 키를 짝지어 d에 대해 더한다
    return torch.einsum("...id,...jd->...ij", query, key)


def scaled_scores(query, key):
    너비 = query.shape[-1]
    return dot_product_scores(query / math.sqrt(너비), key)

import math

import random  # Python's own, and not the one that lies beside this
from helper import shifted as from_beside
from exercises.helper import shifted


def dot_product_scores(query, key):
    return query @ key.transpose(-2, -1)


def scaled_scores(query, key):
    assert random.random() >= 0 and from_beside is shifted
    return dot_product_scores(query, key) / math.sqrt(query.shape[-1])

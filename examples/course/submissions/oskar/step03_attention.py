from torch import nn
from torch.nn import functional as F


def attention(query, key, value, mask=None):
    context = F.scaled_dot_product_attention(query, key, value, mask)
    weights = F.scaled_dot_product_attention(query, key, query.new_ones(key.size(-2)).diag(), mask)
    return context, weights


class SelfAttention(nn.Module):
    def __init__(self, d_in, d_out, qkv_bias=False):
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, qkv_bias)

    def forward(self, x):
        return attention(self.W_query(x), self.W_key(x), self.W_value(x))[0]

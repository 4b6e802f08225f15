"""Right ways of step 19 that are written differently; each gets full marks."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.checks.catalogue import variant


@variant(
    replaces="AdditiveAttention",
    trades="Each line is the paper's formula for one position; Python runs the loop once for every position.",
)
class one_position_at_a_time(nn.Module):
    """A loop over the positions; -1e9 at what is hidden."""

    def __init__(self, query_dim: int, key_dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.W_a = nn.Linear(query_dim, hidden_dim, bias=False)
        self.U_a = nn.Linear(key_dim, hidden_dim, bias=False)
        self.v_a = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, query: Tensor, keys: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        scores = []
        for j in range(keys.size(1)):
            scores.append(self.v_a(torch.tanh(self.W_a(query) + self.U_a(keys[:, j, :]))))
        attention_scores = torch.cat(scores, dim=1)
        if mask is not None:
            attention_scores = attention_scores.masked_fill(mask == 0, -1e9)
        attention_weights = F.softmax(attention_scores, dim=1)
        context = torch.zeros_like(keys[:, 0, :])
        for j in range(keys.size(1)):
            context = context + attention_weights[:, j].unsqueeze(1) * keys[:, j, :]
        return context, attention_weights


@variant(
    replaces="AdditiveAttention",
    trades="`bmm` takes weights and keys as they are; the state is copied for every position.",
)
class state_repeated_and_batched_product(nn.Module):
    """The state is repeated for every position; the context is a batched matrix product; a list comes back."""

    def __init__(self, query_dim: int, key_dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.v_a = nn.Linear(hidden_dim, 1, bias=False)
        self.U_a = nn.Linear(key_dim, hidden_dim, bias=False)
        self.W_a = nn.Linear(query_dim, hidden_dim, bias=False)

    def forward(self, query: Tensor, keys: Tensor, mask: Tensor | None = None) -> list[Tensor]:
        repeated = query.unsqueeze(1).repeat(1, keys.shape[1], 1)
        energy = torch.tanh(self.W_a(repeated) + self.U_a(keys))
        scores = self.v_a(energy).transpose(1, 2)  # (B, 1, S)
        if mask is not None:
            scores = scores.masked_fill(mask.logical_not().unsqueeze(1), torch.finfo(scores.dtype).min)
        weights = torch.softmax(scores, dim=-1)
        return [torch.bmm(weights, keys).squeeze(1), weights.squeeze(1)]


@variant(replaces="AdditiveAttention")
class einsum_and_own_softmax(nn.Module):
    """einsum on the bare weights, tanh by exponentials, a softmax of its own with a guard."""

    def __init__(self, query_dim: int, key_dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.W_a = nn.Linear(query_dim, hidden_dim, False)
        self.U_a = nn.Linear(key_dim, hidden_dim, False)
        self.v_a = nn.Linear(hidden_dim, 1, False)

    def forward(self, query: Tensor, keys: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        state = torch.einsum("bq,hq->bh", query, self.W_a.weight)
        summed = state[:, None] + torch.einsum("bsk,hk->bsh", keys, self.U_a.weight)
        scores = torch.einsum("bsh,h->bs", 2 * torch.sigmoid(2 * summed) - 1, self.v_a.weight[0])
        if mask is not None:
            scores = torch.where(mask, scores, torch.full_like(scores, -torch.inf))
        powers = torch.exp(scores - scores.amax(dim=1, keepdim=True))
        weights = powers / (powers.sum(dim=1, keepdim=True) + 1e-12)
        return torch.einsum("bs,bsk->bk", weights, keys), weights


@variant(replaces="AdditiveAttention")
class zeroed_and_renormalised(nn.Module):
    """Softmax over everything, then the hidden weights zeroed and the rows divided by their sum."""

    def __init__(self, query_dim: int, key_dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.W_a, self.U_a = (nn.Linear(width, hidden_dim, bias=False) for width in (query_dim, key_dim))
        self.v_a = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, query: Tensor, keys: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        weights = self.v_a((self.W_a(query)[:, None] + self.U_a(keys)).tanh())[..., 0].softmax(-1)
        if mask is not None:
            weights = weights * mask
            weights = weights / weights.sum(-1, keepdim=True)
        return (keys.transpose(1, 2) @ weights[..., None])[..., 0], weights


@variant(replaces="AdditiveAttention")
class one_sequence_after_the_other(nn.Module):
    """A loop over the batch; each sequence's hidden positions are added -inf."""

    def __init__(self, query_dim: int, key_dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.W_a = nn.Linear(query_dim, hidden_dim, bias=False)
        self.U_a = nn.Linear(key_dim, hidden_dim, bias=False)
        self.v_a = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, query: Tensor, keys: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        contexts, rows = [], []
        for b in range(len(query)):
            scores = self.v_a(torch.tanh(self.W_a(query[b]) + self.U_a(keys[b]))).flatten()
            if mask is not None:
                scores = scores + torch.zeros_like(scores).masked_fill(~mask[b], float("-inf"))
            row = F.softmax(scores, dim=0)
            rows.append(row)
            contexts.append(row @ keys[b])
        return torch.stack(contexts), torch.stack(rows)


@variant(replaces="SingleHeadCrossAttention")
class tutorial_loop(nn.Module):
    """The tutorial's loop over the positions, one cat a position, stacked at the end."""

    def __init__(self, encoder_dim: int, decoder_dim: int) -> None:
        super().__init__()
        self.attention_layer = nn.Linear(encoder_dim + decoder_dim, 1)

    def forward(
        self, encoder_outputs: Tensor, decoder_hidden: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        scores = []
        for i in range(encoder_outputs.size(1)):
            combined = torch.cat([encoder_outputs[:, i, :], decoder_hidden], dim=1)
            scores.append(self.attention_layer(combined))
        stacked = torch.stack(scores, dim=1).squeeze(2)
        if mask is not None:
            stacked = stacked.masked_fill(mask == False, float("-inf"))  # noqa: E712  # as learners write it
        weights = F.softmax(stacked, dim=1)
        context = torch.sum(encoder_outputs * weights.unsqueeze(2), dim=1)
        return context, weights


@variant(replaces="SingleHeadCrossAttention")
class two_halves_of_the_weight(nn.Module):
    """The weight is cut in two: each part scores its own, and the shares are added."""

    def __init__(self, encoder_dim: int, decoder_dim: int) -> None:
        super().__init__()
        self.attention_layer = nn.Linear(encoder_dim + decoder_dim, 1)
        self.encoder_dim = encoder_dim

    def forward(
        self, encoder_outputs: Tensor, decoder_hidden: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        for_outputs, for_state = self.attention_layer.weight[0].tensor_split([self.encoder_dim])
        scores = encoder_outputs @ for_outputs + (decoder_hidden @ for_state)[:, None] + self.attention_layer.bias
        if mask is not None:
            scores = scores.masked_fill_(~mask, torch.finfo(scores.dtype).min)
        weights = scores.softmax(-1)
        return torch.einsum("bs,bsd->bd", weights, encoder_outputs), weights


@variant(
    replaces="SingleHeadCrossAttention",
    trades="Less is computed, and it shows that the state plays no part; half of the weight never gets a gradient.",
)
class shared_share_left_out(nn.Module):
    """What the softmax cancels is left out: the state's share and the bias."""

    def __init__(self, encoder_dim: int, decoder_dim: int) -> None:
        super().__init__()
        self.attention_layer = nn.Linear(encoder_dim + decoder_dim, 1)

    def forward(
        self, encoder_outputs: Tensor, decoder_hidden: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        scores = encoder_outputs @ self.attention_layer.weight[0, : encoder_outputs.shape[-1]]
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        weights = scores.softmax(dim=1)
        return torch.bmm(weights[:, None], encoder_outputs)[:, 0], weights


@variant(replaces="SingleHeadCrossAttention")
class state_filled_into_a_new_tensor(nn.Module):
    """Outputs and state are written into one new tensor; the softmax is taken by hand."""

    def __init__(self, encoder_dim: int, decoder_dim: int) -> None:
        super().__init__()
        self.attention_layer = nn.Linear(in_features=encoder_dim + decoder_dim, out_features=1, bias=True)

    def forward(
        self, encoder_outputs: Tensor, decoder_hidden: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        batch, length, width = encoder_outputs.shape
        joined = encoder_outputs.new_empty(batch, length, width + decoder_hidden.shape[1])
        joined[..., :width] = encoder_outputs
        joined[..., width:] = decoder_hidden[:, None]
        powers = torch.exp(self.attention_layer(joined))  # (B, S, 1)
        if mask is not None:
            powers = powers * mask[..., None]
        weights = powers / powers.sum(dim=1, keepdim=True)
        return (weights * encoder_outputs).sum(1), weights.squeeze(-1)

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from exercises.step11_gpt_block import Block, LayerNorm


class GPT(nn.Module):
    def __init__(self, vocab_size, block_size, n_layer, n_head, n_embd, dropout=0.0, bias=True):
        super().__init__()
        self.wte = nn.Embedding(num_embeddings=vocab_size, embedding_dim=n_embd)
        self.wpe = nn.Embedding(num_embeddings=block_size, embedding_dim=n_embd)
        self.drop = nn.Dropout(p=dropout)
        blocks = [Block(n_embd, n_head, block_size, dropout, bias) for _ in range(n_layer)]
        self.h = nn.ModuleList(blocks)
        self.ln_f = LayerNorm(n_embd=n_embd, bias=bias)
        self.lm_head = nn.Linear(n_embd, vocab_size, False)
        self.wte.weight = self.lm_head.weight
        for embedding in (self.wte, self.wpe):
            nn.init.normal_(embedding.weight, 0.0, 0.02)

    def forward(self, idx, targets=None):
        B, T = idx.shape
        if T > self.wpe.num_embeddings:
            raise ValueError("sequence longer than block_size")
        x = self.wte(idx) + self.wpe.weight[:T]
        x = self.drop(x)
        for layer in self.h:
            x = layer(x)
        x = self.ln_f(x)
        logits = self.lm_head(x)
        loss = None
        if targets is not None:
            loss = cross_entropy(logits.reshape(B * T, -1), targets.reshape(B * T))
        return logits, loss


@torch.no_grad()
def generate(model, idx, max_new_tokens, temperature=1.0, top_k=None):
    mode = model.training
    model.eval()
    for step in range(max_new_tokens):
        logits, _ = model(idx[:, -model.wpe.num_embeddings :])
        logits = logits[:, -1].float()
        if temperature == 0:
            new = logits.argmax(-1, keepdim=True)
        else:
            if top_k is not None and top_k < logits.size(-1):
                smallest = logits.topk(top_k).values[:, -1:]
                logits = torch.where(logits < smallest, float("-inf"), logits)
            new = torch.multinomial((logits / temperature).softmax(-1), 1)
        idx = torch.cat([idx, new], 1)
    model.train(mode)
    return idx


def next_token_batches(token_ids, context_length, batch_size):
    count = (token_ids.numel() - 1) // context_length
    for start in range(0, count, batch_size):
        windows = range(start, min(start + batch_size, count))
        x = torch.stack([token_ids[w * context_length : (w + 1) * context_length] for w in windows])
        y = torch.stack([token_ids[w * context_length + 1 : (w + 1) * context_length + 1] for w in windows])
        yield x, y

"""12단계: GPT와 문장 생성"""
import torch
import torch.nn.functional as F
from torch import nn

from exercises.step11_gpt_block import Block, LayerNorm


class GPT(nn.Module):
    def __init__(self, vocab_size, block_size, n_layer, n_head, n_embd, dropout=0.0, bias=True):
        super().__init__()
        self.최대_길이 = block_size
        self.wte, self.wpe = nn.Embedding(vocab_size, n_embd), nn.Embedding(block_size, n_embd)
        self.drop = nn.Dropout(p=dropout)
        self.h = nn.ModuleList([Block(n_embd, n_head, block_size, dropout, bias) for _ in range(n_layer)])
        self.ln_f = LayerNorm(n_embd, bias=bias)
        self.lm_head = nn.Linear(in_features=n_embd, out_features=vocab_size, bias=False)
        # 임베딩과 머리는 같은 가중치를 쓴다
        self.wte.weight = self.lm_head.weight

    def forward(self, idx, targets=None):
        T = idx.shape[1]
        if T > self.최대_길이:
            raise ValueError(f"토큰이 {T}개로 너무 많습니다")
        위치 = torch.arange(T, device=idx.device)
        x = self.drop(self.wte(idx) + self.wpe(위치)[None])
        for 블록 in self.h:
            x = 블록(x)
        x = self.ln_f(x)
        logits = self.lm_head(x)
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.transpose(1, 2), targets)
        return logits, loss


def generate(model, idx, max_new_tokens, temperature=1.0, top_k=None):
    원래_모드 = model.training
    model.eval()
    길이 = model.wpe.weight.size(0)
    with torch.no_grad():
        for 차례 in range(max_new_tokens):
            logits = model(idx[:, -길이:])[0][:, -1, :].float()
            if temperature == 0:
                다음 = torch.argmax(logits, dim=-1).unsqueeze(1)
            else:
                if top_k is not None:
                    k = min(top_k, logits.shape[1])
                    순서 = logits.argsort(dim=-1, descending=True)[:, k:]
                    logits = logits.scatter(1, 순서, float("-inf"))
                다음 = torch.multinomial(F.softmax(logits / temperature, dim=-1), 1)
            idx = torch.cat([idx, 다음], dim=1)
    model.train(원래_모드)
    return idx


def next_token_batches(token_ids, context_length, batch_size):
    창_수 = (len(token_ids) - 1) // context_length
    입력 = token_ids[: 창_수 * context_length].view(창_수, context_length)
    정답 = token_ids[1 : 창_수 * context_length + 1].view(창_수, context_length)
    yield from zip(입력.split(batch_size), 정답.split(batch_size))

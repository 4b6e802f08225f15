"""4단계: 코잘 마스크. True는 '봐도 된다'는 뜻이다."""
import torch


def causal_mask(num_tokens, device=None):
    전부 = torch.full((num_tokens, num_tokens), True, device=device)
    return torch.tril(전부)


def masked_softmax(scores, mask):
    # 소프트맥스를 먼저 하고, 미래의 가중치를 0으로 만든다
    가중치 = torch.nn.functional.softmax(scores, dim=-1)
    return 가중치 * mask


def renormalise(weights, mask):
    남은_것 = weights * mask.to(weights.dtype)
    return 남은_것 / torch.sum(남은_것, dim=-1, keepdim=True)

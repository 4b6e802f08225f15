"""4단계: 코잘 마스크. True는 '봐도 된다'는 뜻이다."""
import torch


def causal_mask(num_tokens, device=None):
    전부 = torch.full((num_tokens, num_tokens), True, device=device)
    return torch.tril(전부)


def masked_softmax(scores, mask):
    # 가린 자리에 -inf를 두면 exp가 정확히 0이 된다
    가린_점수 = scores.masked_fill(mask.logical_not(), float("-inf"))
    return torch.nn.functional.softmax(가린_점수, dim=-1)


def renormalise(weights, mask):
    남은_것 = weights * mask.to(weights.dtype)
    return 남은_것 / torch.sum(남은_것, dim=-1, keepdim=True)

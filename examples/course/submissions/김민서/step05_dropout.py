"""5단계: 드롭아웃"""
import torch
from torch import nn


def dropout(x, p=0.5, training=True):
    if not training or p == 0:
        return x
    if not (0 < p <= 1):
        raise ValueError(f"확률 p는 0과 1 사이여야 합니다: {p}")
    if p == 1:
        return x * 0
    살릴_것 = torch.empty(x.shape, device=x.device).uniform_(0, 1) >= p
    # 살아남은 수를 키워서 평균을 지킨다
    return x * 살릴_것 / (1 - p)


class Dropout(nn.Module):
    def __init__(self, p=0.5):
        super().__init__()
        self.p = p

    def forward(self, x):
        if self.training:
            return dropout(x, self.p)
        return x

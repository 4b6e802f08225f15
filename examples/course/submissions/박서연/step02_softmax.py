"""2단계: 넘치지 않는 소프트맥스"""
import torch


def softmax(x, dim=-1):
    # 가장 큰 수를 빼면 지수는 1을 넘지 않는다
    최댓값 = torch.max(x, dim=dim, keepdim=True).values
    지수 = torch.exp(x - 최댓값)
    return 지수 / torch.sum(지수, dim=dim, keepdim=True)

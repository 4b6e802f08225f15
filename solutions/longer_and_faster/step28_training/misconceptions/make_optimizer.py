"""What learners get wrong in `make_optimizer`, each with the check that catches it."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from grader.checks.catalogue import another_form, misconception


def _groups(model: Any, decays: Callable[[str, Tensor], bool], weight_decay: float) -> list[dict[str, Any]]:
    named = list(model.named_parameters())
    return [
        {"params": [value for name, value in named if decays(name, value)], "weight_decay": weight_decay},
        {"params": [value for name, value in named if not decays(name, value)], "weight_decay": 0.0},
    ]


def _is_matrix(name: str, value: Tensor) -> bool:
    return value.dim() >= 2


@misconception(replaces="make_optimizer", caught_by="test_optimizer")
def all_decay(model: Any, weight_decay: float = 0.1) -> torch.optim.Optimizer:
    """All parameters decayed, biases and norms too.

    A norm's weight is to be near 1, and a bias near nothing in particular: shrinking them does no good.

    Of how many dimensions is a bias?
    """
    return torch.optim.AdamW(model.parameters(), betas=(0.9, 0.95), eps=1e-8, weight_decay=weight_decay)


@misconception(replaces="make_optimizer", caught_by="test_optimizer")
def nothing_decays(model: Any, weight_decay: float = 0.1) -> torch.optim.Optimizer:
    """Nothing decayed: weight_decay was not handed on.

    AdamW is told for each group how much it decays.

    Which group gets weight_decay?
    """
    return torch.optim.AdamW(_groups(model, _is_matrix, 0.0), betas=(0.9, 0.95), eps=1e-8)


@misconception(replaces="make_optimizer", caught_by="test_optimizer")
def decay_the_other_way(model: Any, weight_decay: float = 0.1) -> torch.optim.Optimizer:
    """Vectors decayed and matrices did not.

    It is the matrices that are to stay small.

    Which of the two groups gets weight_decay?
    """
    groups = _groups(model, lambda name, value: value.dim() < 2, weight_decay)
    return torch.optim.AdamW(groups, betas=(0.9, 0.95), eps=1e-8)


@misconception(replaces="make_optimizer", caught_by="test_optimizer")
def embeddings_do_not_decay(model: Any, weight_decay: float = 0.1) -> torch.optim.Optimizer:
    """The embeddings did not decay.

    Here every parameter of two or more dimensions decays, embeddings too.

    Of how many dimensions is an embedding?
    """
    groups = _groups(
        model, lambda name, value: value.dim() >= 2 and "wte" not in name and "wpe" not in name, weight_decay
    )
    return torch.optim.AdamW(groups, betas=(0.9, 0.95), eps=1e-8)


@misconception(replaces="make_optimizer", caught_by="test_optimizer")
def only_biases_spared(model: Any, weight_decay: float = 0.1) -> torch.optim.Optimizer:
    """Parameters called bias did not decay, and the weights of the norms did.

    The weight of a norm is a vector too.

    Of how many dimensions is ln_f.weight?
    """
    groups = _groups(model, lambda name, value: not name.endswith("bias"), weight_decay)
    return torch.optim.AdamW(groups, betas=(0.9, 0.95), eps=1e-8)


@misconception(replaces="make_optimizer", caught_by="test_optimizer")
def vectors_left_out(model: Any, weight_decay: float = 0.1) -> torch.optim.Optimizer:
    """Only the matrices were handed to the optimizer: biases and norms never learn.

    Not to decay does not mean not to learn.

    Are all parameters in one of the groups?
    """
    groups = _groups(model, _is_matrix, weight_decay)[:1]
    return torch.optim.AdamW(groups, betas=(0.9, 0.95), eps=1e-8)


@misconception(replaces="make_optimizer", caught_by="test_optimizer")
def adam(model: Any, weight_decay: float = 0.1) -> torch.optim.Optimizer:
    """Adam was used, which adds weight decay to the gradients.

    There Adam's own scaling divides most of it away again. AdamW shrinks the weights themselves.

    What does the W stand for?
    """
    return torch.optim.Adam(_groups(model, _is_matrix, weight_decay), betas=(0.9, 0.95), eps=1e-8)


@misconception(replaces="make_optimizer", caught_by="test_optimizer")
def default_betas(model: Any, weight_decay: float = 0.1) -> torch.optim.Optimizer:
    """The betas were those of torch, (0.9, 0.999).

    Language models take 0.95 for the second: the squares of the gradients are averaged over fewer steps.

    Which betas does AdamW take when it is told none?
    """
    return torch.optim.AdamW(_groups(model, _is_matrix, weight_decay), eps=1e-8)


@misconception(replaces="make_optimizer", caught_by="test_optimizer")
def betas_exchanged(model: Any, weight_decay: float = 0.1) -> torch.optim.Optimizer:
    """The two betas were exchanged.

    The first averages the gradients, the second their squares: (0.9, 0.95).

    Which of the two is larger?
    """
    return torch.optim.AdamW(_groups(model, _is_matrix, weight_decay), betas=(0.95, 0.9), eps=1e-8)


@misconception(replaces="make_optimizer", caught_by="test_optimizer")
def sgd(model: Any, weight_decay: float = 0.1) -> torch.optim.Optimizer:
    """Plain gradient descent was used.

    AdamW gives each parameter a step of its own size.

    Which optimizer does the step ask for?
    """
    return torch.optim.SGD(_groups(model, _is_matrix, weight_decay), lr=1e-3)


@misconception(replaces="make_optimizer", caught_by="test_optimizer")
def large_eps(model: Any, weight_decay: float = 0.1) -> torch.optim.Optimizer:
    """eps was far larger than 1e-8.

    It stands beside the root of the averaged squares, and makes the steps of small gradients smaller.

    Which eps does the step ask for?
    """
    return torch.optim.AdamW(_groups(model, _is_matrix, weight_decay), betas=(0.9, 0.95), eps=1e-3)


@another_form(nothing_decays)
def decay_of_adamw_itself(model: Any, weight_decay: float = 0.1) -> torch.optim.Optimizer:
    """The group says nothing: AdamW's own default decays it."""
    matrices, vectors = _groups(model, _is_matrix, 0.0)
    return torch.optim.AdamW([{"params": matrices["params"]}, vectors], betas=(0.9, 0.95), eps=1e-8)


@misconception(replaces="make_optimizer", caught_by="test_optimizer")
def vectors_decay_by_default(model: Any, weight_decay: float = 0.1) -> torch.optim.Optimizer:
    """The group of biases and norms was not told its weight decay: AdamW's own default of 0.01 acted on it.

    What a group does not say is the optimizer's default, and that of AdamW is not 0.

    By how much does a group decay that has no weight_decay?
    """
    matrices, vectors = _groups(model, _is_matrix, weight_decay)
    return torch.optim.AdamW([matrices, {"params": vectors["params"]}], betas=(0.9, 0.95), eps=1e-8)


@misconception(replaces="make_optimizer", caught_by="test_optimizer")
def only_linear_weights_decay(model: Any, weight_decay: float = 0.1) -> torch.optim.Optimizer:
    """Only the weights of linear layers decayed, and the embedding of the positions did not.

    The embedding of the tokens did, since the head's weight is the same parameter.

    Of how many dimensions is wpe.weight?
    """
    groups = _groups(model, lambda name, value: value.dim() >= 2 and "wpe" not in name, weight_decay)
    return torch.optim.AdamW(groups, betas=(0.9, 0.95), eps=1e-8)


@misconception(replaces="make_optimizer", caught_by="test_optimizer")
def weight_decay_fixed(model: Any, weight_decay: float = 0.1) -> torch.optim.Optimizer:
    """The matrices decayed by 0.1, whatever weight_decay says.

    0.1 is the default, and the caller may choose another.

    Where is the argument weight_decay used?
    """
    return torch.optim.AdamW(_groups(model, _is_matrix, 0.1), betas=(0.9, 0.95), eps=1e-8)


@another_form(large_eps)
def eps_of_many_tutorials(model: Any, weight_decay: float = 0.1) -> torch.optim.Optimizer:
    return torch.optim.AdamW(_groups(model, _is_matrix, weight_decay), betas=(0.9, 0.95), eps=1e-5)


@another_form(large_eps)
def eps_of_bert(model: Any, weight_decay: float = 0.1) -> torch.optim.Optimizer:
    return torch.optim.AdamW(_groups(model, _is_matrix, weight_decay), betas=(0.9, 0.95), eps=1e-6)

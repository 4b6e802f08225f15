"""What learners get wrong in `repeat_kv`, each with the check that catches it."""

from collections.abc import Callable

from torch import Tensor

from grader.checks.catalogue import another_form, misconception


@misconception(replaces="repeat_kv", caught_by="test_repeat_kv")
def heads_tiled(x: Tensor, n_rep: int) -> Tensor:
    """The heads were repeated as a whole: 0, 1, 0, 1.

    Head h of the result should be head h // n_rep: 0, 0, 1, 1. Else query heads meet the keys of another group.

    What is the difference between repeat and repeat_interleave?
    """
    return x.repeat(1, n_rep, 1, 1)


@misconception(replaces="repeat_kv", caught_by="test_repeat_kv")
def tokens_repeated(x: Tensor, n_rep: int) -> Tensor:
    """The tokens were repeated and not the heads.

    Of (B, H, T, d) the heads are the second axis.

    Which axis is to be longer afterwards?
    """
    return x.repeat_interleave(n_rep, dim=2)


@misconception(replaces="repeat_kv", caught_by="test_repeat_kv")
def widths_repeated(x: Tensor, n_rep: int) -> Tensor:
    """The numbers of each head were repeated and not the heads.

    Of (B, H, T, d) the heads are the second axis.

    Which axis is to be longer afterwards?
    """
    return x.repeat_interleave(n_rep, dim=-1)


@misconception(replaces="repeat_kv", caught_by="test_repeat_kv")
def rows_of_the_batch_repeated(x: Tensor, n_rep: int) -> Tensor:
    """The sequences of the batch were repeated and not the heads.

    Of (B, H, T, d) the heads are the second axis.

    Which axis is to be longer afterwards?
    """
    return x.repeat_interleave(n_rep, dim=0)


def _viewed_as_heads(dim: int | None) -> Callable[[Tensor, int], Tensor]:
    """The numbers repeated along another axis, and brought to the right shape by force."""

    def repeat_kv(x: Tensor, n_rep: int) -> Tensor:
        return x.repeat_interleave(n_rep, dim=dim).reshape(x.shape[0], x.shape[1] * n_rep, *x.shape[2:])

    return repeat_kv


tokens_viewed_as_heads = another_form(tokens_repeated)(_viewed_as_heads(2))
numbers_viewed_as_heads = another_form(widths_repeated)(_viewed_as_heads(None))


@misconception(replaces="repeat_kv", caught_by="test_repeat_kv")
def axis_not_merged(x: Tensor, n_rep: int) -> Tensor:
    """The copies were left on an axis of their own: (B, H_kv, n_rep, T, d).

    Attention expects four axes, and as many key heads as query heads.

    Which two axes have to become one?
    """
    return x[:, :, None].expand(-1, -1, n_rep, -1, -1)


@another_form(heads_tiled)
def expanded_on_the_wrong_side(x: Tensor, n_rep: int) -> Tensor:
    return x[:, None].expand(-1, n_rep, -1, -1, -1).flatten(1, 2)

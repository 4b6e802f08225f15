"""A softmax that never overflows

The softmax turns scores into weights: every weight is between 0 and 1, the weights of a slice sum to 1, and a higher
score always gets a larger weight. The formula is short; the work is to keep it exact for very large scores, for scores
of minus infinity and in half precision.

Asked everywhere: views with any strides, more than 1,024 tokens, any device, and calls under `torch.no_grad()`. Inputs
stay unmodified, and later calls leave earlier results as they are. A guard of up to 1e-10 beside a denominator is
right.

Off limits: every built-in of the softmax family (`softmax`, `log_softmax`, `softmin`, `gumbel_softmax`, as function,
method or module) and `scaled_dot_product_attention`.
"""

from torch import Tensor


def softmax(x: Tensor, dim: int = -1) -> Tensor:
    """Turn the numbers of every slice along `dim` into positive weights that sum to 1.

    Shapes: `x` has any shape with at least one dimension, the result the same shape. `dim` is any dimension of `x`; a
    negative one counts from the end. Entries of minus infinity get weight 0 when their slice has a finite entry.
    """
    ### BEGIN SOLUTION
    # Adding one number to a whole slice changes no weight. With the largest entry moved to 0, exp gives at most 1 and
    # cannot overflow, and the sum is at least 1. As the shift changes nothing, no gradient has to flow through it.
    largest = x.detach().amax(dim=dim, keepdim=True)  # the shape of x, with 1 at dim
    exponentials = (x - largest).exp()  # the shape of x
    return exponentials / exponentials.sum(dim=dim, keepdim=True)  # the shape of x
    ### END SOLUTION

"""What learners get wrong in `feature_map`, each with the check that catches it."""

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.checks.catalogue import another_form, misconception


@misconception(replaces="feature_map", caught_by="test_feature_map")
def relu(x: Tensor) -> Tensor:
    """The feature map was relu.

    It gives 0 for every number below 0, and no gradient there. A query with no entry above 0 then has no weight at all.

    What is elu(x) + 1 at x = -1, and what is relu?
    """
    return F.relu(x)


@misconception(replaces="feature_map", caught_by="test_feature_map")
def relu_plus_one(x: Tensor) -> Tensor:
    """The feature map was relu(x) + 1.

    Below 0 it is 1 everywhere, and has no gradient there.

    How does elu differ from relu below 0?
    """
    return F.relu(x) + 1


@misconception(replaces="feature_map", caught_by="test_feature_map")
def exponential(x: Tensor) -> Tensor:
    """The feature map was exp(x) above 0, too.

    It overflows from 89 on in float32, and one large key then outweighs all others.

    What should the map be above 0?
    """
    return x.exp()


@misconception(replaces="feature_map", caught_by="test_feature_map")
def elu_without_one(x: Tensor) -> Tensor:
    """The feature map was elu(x), without the 1.

    Below 0 it is negative, so that weights can be negative and a sum of them 0.

    What is the smallest value of elu, and what has to be added for it to be positive?
    """
    return F.elu(x)


@misconception(replaces="feature_map", caught_by="test_feature_map")
def elu_of_x_plus_one(x: Tensor) -> Tensor:
    """The 1 was added before elu and not after it.

    elu(x + 1) is negative below -1.

    To what is the 1 to be added: to what goes into elu, or to what comes out?
    """
    return F.elu(x + 1)


@misconception(replaces="feature_map", caught_by="test_feature_map")
def softmax_of_features(x: Tensor) -> Tensor:
    """The feature map was a softmax over the features.

    Each feature then depends on all others of its token, and the map is no longer taken element by element.

    Which entries of x may one entry of the result depend on?
    """
    return torch.softmax(x, dim=-1) if x.dim() else torch.ones_like(x)


@misconception(replaces="feature_map", caught_by="test_feature_map")
def softplus(x: Tensor) -> Tensor:
    """The feature map was softplus, log(1 + exp(x)).

    It is positive as well, but it is another function: 0.69 at 0, where elu(x) + 1 is 1.

    What is elu(0) + 1?
    """
    return F.softplus(x)


@misconception(replaces="feature_map", caught_by="test_feature_map")
def sigmoid(x: Tensor) -> Tensor:
    """The feature map was a sigmoid.

    It is positive, but never above 1: large entries all look alike.

    What is elu(2) + 1?
    """
    return torch.sigmoid(x)


@misconception(replaces="feature_map", caught_by="test_feature_map")
def selu(x: Tensor) -> Tensor:
    """The feature map was selu(x) + 1.

    selu is elu times 1.05, with another slope below 0.

    Which activation has slope 1 above 0 and ends at -1 below?
    """
    return F.selu(x) + 1


@misconception(replaces="feature_map", caught_by="test_feature_map")
def gelu_plus_one(x: Tensor) -> Tensor:
    """The feature map was gelu(x) + 1.

    gelu comes back to 0 far below 0: the map is then 1 there, and not near 0.

    Towards which number does elu go far below 0?
    """
    return F.gelu(x) + 1


@misconception(replaces="feature_map", caught_by="test_feature_map")
def branches_exchanged(x: Tensor) -> Tensor:
    """x + 1 was taken below 0, and exp(x) above it.

    The result is then negative below -1, and overflows above 89.

    Which of the two branches is positive for every x below 0?
    """
    return torch.where(x > 0, x.clamp(max=80).exp(), x + 1)


@misconception(replaces="feature_map", caught_by="test_feature_map")
def nan_gradient(x: Tensor) -> Tensor:
    """The two branches were put together by torch.where, with exp taken of every entry.

    The result is right. But exp(95) is infinite in float32, and in the backward pass the branch that was not taken
    gives 0 times infinity: NaN.

    What may exp be given, so that it is never asked for a large number?
    """
    return torch.where(x > 0, x + 1, torch.exp(x))


@misconception(replaces="feature_map", caught_by="test_feature_map")
def both_branches_added(x: Tensor) -> Tensor:
    """Both branches were computed for every number, and each multiplied by 1 or 0 and added.

    exp overflows for large numbers, and infinity times 0 is NaN.

    What is exp(95) in float32, and what is 0 times that?
    """
    above = (x > 0).to(x.dtype)
    return above * (x + 1) + (1 - above) * x.exp()


@misconception(replaces="feature_map", caught_by="test_feature_map")
def elu_in_place(x: Tensor) -> Tensor:
    """elu was computed in place: the caller's tensor holds other numbers afterwards.

    With inplace=True, and in methods whose name ends in `_`, torch writes into the tensor it is given.

    Which tensor do the features get written into?
    """
    return F.elu(x, inplace=True) + 1


@misconception(replaces="feature_map", caught_by="test_feature_map")
def features_detached(x: Tensor) -> Tensor:
    """The features were detached, or computed under no_grad: no gradient reaches x.

    Queries and keys come from layers that are to be trained.

    Where does the path from the result back to x break?
    """
    return F.elu(x.detach()) + 1


@misconception(replaces="feature_map", caught_by="test_feature_map")
def relu_and_a_little(x: Tensor) -> Tensor:
    """The feature map was relu with a small number added.

    No weight is 0 now, but below 0 all numbers have the same feature, and no gradient.

    What is elu(x) + 1 at x = -1 and at x = -2?
    """
    return F.relu(x) + 1e-3


@another_form(relu_and_a_little)
def relu_and_a_millionth(x: Tensor) -> Tensor:
    return F.relu(x) + 1e-6


@misconception(replaces="feature_map", caught_by="test_feature_map")
def a_little_added(x: Tensor) -> Tensor:
    """A small number was added to the features.

    elu(x) + 1 is above 0 by itself. A guard against a division by 0 has its place beside the denominator.

    Where does the division happen, and what stands there?
    """
    return F.elu(x) + 1 + 1e-3


@misconception(replaces="feature_map", caught_by="test_feature_map")
def leaky_relu_plus_one(x: Tensor) -> Tensor:
    """The feature map was leaky_relu(x) + 1.

    Below -100 it is negative, and so may be the weights and their sum.

    What do elu and leaky_relu go to far below 0?
    """
    return F.leaky_relu(x) + 1

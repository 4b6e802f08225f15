"""What learners get wrong in `flash_forward`: the logsumexp."""

from grader.checks.catalogue import misconception
from solutions.longer_and_faster.step29_triton.misconceptions.kernel import by


@misconception(replaces="flash_forward", caught_by="test_logsumexp")
@by(LOGSUMEXP="in base 2")
def logsumexp_in_base_2() -> None:
    """The logsumexp was left in base 2.

    log2(x) is larger than the natural logarithm by a factor of 1.44.

    How many natural units is a power of 2?
    """


@misconception(replaces="flash_forward", caught_by="test_logsumexp")
@by(LOGSUMEXP="without the maximum")
def logsumexp_without_the_maximum() -> None:
    """The logsumexp was the logarithm of the sum alone, without the maximum.

    The sum is of exponentials relative to the maximum, which has to be added again.

    What is log(exp(m) * s)?
    """


@misconception(replaces="flash_forward", caught_by="test_logsumexp")
@by(LOGSUMEXP="in two bases")
def logsumexp_in_two_bases() -> None:
    """The maximum in base 2 was added to a natural logarithm.

    The scores were multiplied by log2(e), and so their maximum is in other units than the logarithm.

    In which base is your running maximum?
    """


@misconception(replaces="flash_forward", caught_by="test_logsumexp")
@by(LOGSUMEXP="in the other two bases")
def logarithm_in_base_2() -> None:
    """The maximum was added to a logarithm in base 2.

    The logsumexp is a natural logarithm: log2(x) is larger by a factor of 1.44.

    Which of Triton's logarithms is the natural one?
    """


@misconception(replaces="flash_forward", caught_by="test_logsumexp")
@by(LOGSUMEXP="the sum itself")
def sum_in_place_of_the_logsumexp() -> None:
    """The sum of the exponentials was given back in place of the logsumexp.

    It is relative to the maximum, and no logarithm was taken. The logsumexp is the maximum plus the logarithm of the
    sum.

    What is log(exp(m) * s)?
    """


@misconception(replaces="flash_forward", caught_by="test_logsumexp")
@by(LOGSUMEXP="of the sum alone")
def sum_in_place_of_its_logarithm() -> None:
    """The maximum and the sum were added without a logarithm.

    The logsumexp is the maximum plus the logarithm of the sum.

    What is log(exp(m) * s)?
    """


@misconception(replaces="flash_forward", caught_by="test_logsumexp")
@by(LOGSUMEXP="the maximum alone")
def maximum_in_place_of_the_logsumexp() -> None:
    """The largest score was given back in place of the logsumexp.

    That is all of it only where one key outweighs all others.

    What is the logsumexp of three scores of 0?
    """


@misconception(replaces="flash_forward", caught_by="test_logsumexp")
@by(LOGSUMEXP="of unscaled scores")
def logsumexp_of_unscaled_scores() -> None:
    """The maximum in the logsumexp was that of the scores before scaling.

    The weights are exponentials of the scaled scores, and so is their sum.

    Which scores did your exponentials get?
    """

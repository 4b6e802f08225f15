"""What torch has for this step: mistakes of later steps are looked for with it in place of the learner's own, since
their catalogues draw with torch's own, and another right dropout draws other numbers."""

from torch.nn import Dropout
from torch.nn.functional import dropout

__all__ = ["Dropout", "dropout"]

# Generated from solutions/step12_gpt by `make exercises`: write your code where it says NotImplementedError.
"""GPT, and the text it writes

Everything meets here: token and position embeddings, a stack of step 11's blocks, a final norm and a head that
shares its weight with the token embedding. A loss tells how wrong the next tokens are, and sampling writes on.

Asked everywhere: views with any strides, more than 1,024 tokens, and calls under `torch.no_grad()`. Inputs stay
unmodified, and later calls leave earlier results as they are. A guard of up to 1e-10 beside a denominator is right. A
module has no other parameters than those named. Switched back and forth by `train()` and `eval()`, its own or those of
a parent module, it drops in training mode only, and the same `torch.manual_seed` repeats what is dropped. Where a
ValueError is named, any error will do.

Off limits: nn.Transformer and its kin (nn.TransformerEncoder, nn.TransformerDecoderLayer, ...).
"""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from exercises.step11_gpt_block import Block, LayerNorm


class GPT(nn.Module):
    """A language model with GPT-2's layout and parameter names.

    B sequences of T tokens; D is n_embd, the model width. Submodules: wte (vocab_size rows of width D), wpe
    (block_size rows), drop (dropout on the sum of both embeddings), h (an nn.ModuleList of n_layer blocks), ln_f,
    lm_head (nn.Linear without bias), and lm_head.weight is wte.weight: one and the same parameter. dropout and bias go
    to every block; with bias=False, ln_f may have a bias or none.
    """

    def __init__(
        self,
        vocab_size: int,
        block_size: int,
        n_layer: int,
        n_head: int,
        n_embd: int,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        raise NotImplementedError

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Return (logits, loss): what follows each token, and how wrong that is.

        idx: (B, T) token ids. targets: (B, T) token ids, already shifted: targets[b, t] is what follows idx[b, t].
        logits: (B, T, vocab_size), one row for every position, in the parameters' dtype.
        loss: the mean cross-entropy over all B * T positions, or None without targets.
        Raises ValueError when T > block_size.
        """
        raise NotImplementedError


def generate(
    model: GPT, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
) -> Tensor:
    """Append max_new_tokens sampled tokens to idx: (B, T) -> (B, T + max_new_tokens).

    The model sees the last block_size tokens at most. The logits are divided by temperature before the softmax;
    temperature = 0 takes the largest logit. With top_k only the top_k largest logits of each row can be drawn; a
    top_k larger than the vocabulary means all of it. Each row draws by itself. idx is not modified. The model is
    evaluated in eval mode and gets back the mode it had.
    """
    raise NotImplementedError


def next_token_batches(token_ids: Tensor, context_length: int, batch_size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield (inputs, targets), both (B, T): T is context_length, B at most batch_size.

    token_ids: (N,). Window i starts at i * T, in order, and there are (N - 1) // T of them: each token of a window
    needs the token that follows it, since targets are the inputs shifted by one. The last batch may be smaller.
    The ids may be read as numbers, into lists say. What is yielded lies on the device of token_ids, in a process whose
    default device is the CPU: torch.as_tensor(token_ids) is right, and a tensor made of numbers has to be told where.
    """
    raise NotImplementedError

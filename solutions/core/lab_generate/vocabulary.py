"""The vocabulary of this lab: GPT-2's where tiktoken has it on this machine, else a small one that comes with the lab.

Nothing is downloaded unless that is typed: `python -m solutions.core.lab_generate.vocabulary download`. The small one
is learned here from the two texts in `data/`: GPT-2's way, but whole characters come before any merge, so that a
syllable of Korean which is in the text is one token and not three bytes. `… vocabulary train` writes
it again, byte for byte.
"""

from __future__ import annotations

import base64
import hashlib
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import regex
import tiktoken
from tiktoken_ext.openai_public import ENDOFTEXT, r50k_pat_str

from ...capstone.lab_common.merging import Words

DATA = Path(__file__).resolve().parent / "data"
TEXTS = {"en": DATA / "text.en.txt", "ko": DATA / "text.ko.txt"}
RANKS = DATA / "small.tiktoken"
SIZE = 1024  # tokens in the small vocabulary, <|endoftext|> included

# Where tiktoken gets GPT-2's vocabulary, and the SHA-256 of each file (tiktoken_ext/openai_public.py, `gpt2`). A file
# counts as there only when it has this hash: tiktoken removes any other and downloads it again.
GPT2_FILES = {
    "https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/vocab.bpe": (
        "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5"
    ),
    "https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/encoder.json": (
        "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783"
    ),
}


class DownloadFailed(Exception):
    """GPT-2's vocabulary was asked for and could not be had."""


@dataclass(frozen=True)
class Vocabulary:
    """An encoding, and whether it is GPT-2's own."""

    encoding: tiktoken.Encoding
    is_gpt2: bool

    @property
    def size(self) -> int:
        """How many tokens there are."""
        return self.encoding.n_vocab


def load(download: bool = False) -> Vocabulary:
    """GPT-2's vocabulary if tiktoken has it in its cache or `download` is set, else the small one.

    Without `download` the network is never touched. Raises DownloadFailed, with the reason, when a download fails.
    """
    if not (download or gpt2_is_cached()):
        return Vocabulary(small(), is_gpt2=False)
    try:
        return Vocabulary(tiktoken.get_encoding("gpt2"), is_gpt2=True)
    except (OSError, ValueError) as error:  # requests' errors are OSErrors; a wrong hash is a ValueError
        raise DownloadFailed(f"{type(error).__name__}: {error}") from error


def gpt2_is_cached() -> bool:
    """Whether tiktoken would find all of GPT-2's vocabulary in its cache (the rules of tiktoken/load.py)."""
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    if folder == "":
        return False
    cache = Path(folder or Path(tempfile.gettempdir(), "data-gym-cache"))
    return all(_has_hash(cache / hashlib.sha1(url.encode()).hexdigest(), wanted) for url, wanted in GPT2_FILES.items())


def small(ranks: Path = RANKS) -> tiktoken.Encoding:
    """The vocabulary that the kit ships: every byte, and the merges learned from its texts."""
    merges = read_ranks(ranks)
    return tiktoken.Encoding(
        name="small", pat_str=r50k_pat_str, mergeable_ranks=merges, special_tokens={ENDOFTEXT: len(merges)}
    )


def sample_text(language: str) -> str:
    """The kit's own text in a language, `en` or `ko`."""
    return TEXTS[language].read_text(encoding="utf-8")


def train(texts: Iterable[str], size: int) -> dict[bytes, int]:
    """Learns `size` ranks by byte-pair encoding (Sennrich et al. 2016).

    The 256 bytes come first, so that any text can be encoded. Then the characters of more than one byte, each with the
    merges of its bytes that lead to it. Then the most frequent pair of neighbours within a word becomes a token, again
    and again; among equally frequent pairs the smallest wins, so that the result depends on the texts alone.
    """
    counts = Counter(word for text in texts for word in regex.findall(r50k_pat_str, text))
    words = Words([[character.encode() for character in word] for word in counts], counts.values())
    ranks = {bytes([byte]): byte for byte in range(256)}
    for character in sorted({character for word in counts for character in word}):
        raw = character.encode()
        for length in range(2, len(raw) + 1):
            ranks.setdefault(raw[:length], len(ranks))
    while len(ranks) < size and (learned := words.merge_most_frequent()):
        ranks.setdefault(learned, len(ranks))
    return ranks


def read_ranks(path: Path) -> dict[bytes, int]:
    """The ranks of a file in tiktoken's format: a token in base64 and its rank on each line."""
    pairs = (line.split() for line in path.read_bytes().splitlines())
    return {base64.b64decode(token): int(rank) for token, rank in pairs}


def ranks_file(ranks: dict[bytes, int]) -> bytes:
    """The content of a file in tiktoken's format."""
    lines = (
        base64.b64encode(token) + b" %d\n" % rank for token, rank in sorted(ranks.items(), key=lambda pair: pair[1])
    )
    return b"".join(lines)


def _has_hash(path: Path, wanted: str) -> bool:
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == wanted


def main(words: list[str]) -> int:
    """`train` writes data/small.tiktoken again; `download` fetches GPT-2's vocabulary (1.5 MB)."""
    if words == ["train"]:
        ranks = train([sample_text(language) for language in TEXTS], SIZE - 1)
        RANKS.write_bytes(ranks_file(ranks))
        print(f"{len(ranks)} ranks -> {RANKS}")
        return 0
    if words == ["download"]:
        try:
            print(f"{load(download=True).size:,} tokens")
        except DownloadFailed as failure:
            print(f"GPT-2's vocabulary could not be downloaded ({failure}). Type: make demo", file=sys.stderr)
            return 2
        return 0
    print(f"Type: python -m {__spec__.name} download", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

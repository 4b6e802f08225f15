"""The demo's vocabulary: GPT-2's where it is cached, else the small one; the network only on request."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NoReturn

import pytest
import tiktoken
import tiktoken.load

from solutions.core.lab_generate import vocabulary


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An empty cache, and no way to download."""

    def refuse(blobpath: str) -> NoReturn:
        raise ConnectionError(f"{blobpath} was to be downloaded")

    monkeypatch.setattr(tiktoken.load, "read_file", refuse)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tiktoken.registry, "ENCODINGS", {})


def test_small_vocabulary_is_what_training_writes() -> None:
    """The file that ships is the one that the texts give, byte for byte."""
    texts = [vocabulary.sample_text(language) for language in vocabulary.TEXTS]
    ranks = vocabulary.train(texts, vocabulary.SIZE - 1)
    assert vocabulary.ranks_file(ranks) == vocabulary.RANKS.read_bytes(), (
        "type: python -m solutions.core.lab_generate.vocabulary train"
    )


def test_every_byte_is_a_token() -> None:
    """Any text round-trips, whatever its characters."""
    encoding = vocabulary.small()
    assert encoding.n_vocab == vocabulary.SIZE
    assert [encoding.decode_single_token_bytes(byte) for byte in range(256)] == [bytes([byte]) for byte in range(256)]
    for text in ("어텐션이란?", "naïve 🙂\r\n\t\0", "<|endoftext|>", "'ll  two  spaces ", "汉字 ﷺ"):
        assert encoding.decode(encoding.encode(text, disallowed_special=())) == text


def test_frequent_words_are_one_token() -> None:
    """Training has learned the words of both texts."""
    encoding = vocabulary.small()
    for word in (" attention", " the", " model", " 토큰", " 모델은"):
        assert len(encoding.encode(word)) == 1


def test_training_merges_the_most_frequent_pair() -> None:
    """Worked by hand: `ab` comes four times, then `ab` `ab` twice; of equal pairs the smallest wins."""
    assert list(vocabulary.train(["abab abab"], 258))[256:] == [b"ab", b"abab"]
    assert list(vocabulary.train(["xy ab"], 257))[256:] == [b" a"]
    assert list(vocabulary.train(["aaaa"], 300))[256:] == [b"aa", b"aaaa"]


def test_without_a_cache_the_small_one_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """No network is touched, also where caching is switched off."""
    assert not vocabulary.load().is_gpt2
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    assert not vocabulary.load().is_gpt2


def test_a_damaged_cache_is_no_cache(tmp_path: Path) -> None:
    """A file with another hash would make tiktoken download it again, so it does not count."""
    for url in vocabulary.GPT2_FILES:
        (tmp_path / hashlib.sha1(url.encode()).hexdigest()).write_bytes(b"half a file")
    assert not vocabulary.load().is_gpt2


def test_a_cache_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where both files are there with the right hashes, tiktoken is asked for GPT-2's vocabulary."""
    files = {url: hashlib.sha256(url.encode()).hexdigest() for url in vocabulary.GPT2_FILES}
    for url in files:
        (tmp_path / hashlib.sha1(url.encode()).hexdigest()).write_bytes(url.encode())
    monkeypatch.setattr(vocabulary, "GPT2_FILES", files)
    asked = []
    monkeypatch.setattr(tiktoken, "get_encoding", lambda name: asked.append(name) or vocabulary.small())
    assert vocabulary.load().is_gpt2
    assert asked == ["gpt2"]


def test_gpt2s_files_are_those_of_tiktoken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The addresses and hashes written down here are the ones that tiktoken asks for."""
    from tiktoken_ext import openai_public

    asked: dict[str, str] = {}

    def note(
        vocab_bpe_file: str, encoder_json_file: str, vocab_bpe_hash: str, encoder_json_hash: str
    ) -> dict[bytes, int]:
        asked.update({vocab_bpe_file: vocab_bpe_hash, encoder_json_file: encoder_json_hash})
        return {}

    monkeypatch.setattr(openai_public, "data_gym_to_mergeable_bpe_ranks", note)
    openai_public.gpt2()
    assert asked == vocabulary.GPT2_FILES


def test_a_download_that_fails_is_said() -> None:
    """Only a request for the download touches the network, and its failure has one type."""
    with pytest.raises(vocabulary.DownloadFailed, match="ConnectionError"):
        vocabulary.load(download=True)

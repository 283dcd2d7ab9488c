"""Tokens that are kept whole wherever a text has them, such as [E1] or <user>.

Which of two overlapping tokens counts, and what `single_word`, `lstrip`,
`rstrip` and `normalized` mean, is Hugging Face tokenizers' rule: upstream file
tokenizers/src/tokenizer/added_vocabulary.rs.
"""

import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

Normalized = tuple[str, Sequence[int]]  # text, and each character's source
WORD, SPACE = re.compile(r"\w"), re.compile(r"\s*")


@dataclasses.dataclass(frozen=True)
class AddedToken:
    content: str
    id: int
    single_word: bool = False  # not where a letter or digit touches it
    lstrip: bool = False  # takes the white space before it
    rstrip: bool = False  # and after it
    normalized: bool = False  # is looked for after lower-casing and the like
    special: bool = False  # a sign like [SEP] more than a word
    is_word_piece: bool = False  # words are split into it, too


class Part(NamedTuple):
    """text[start:end]; `token` is None where the text is tokenized."""

    token: AddedToken | None
    start: int
    end: int


class AddedTokens:
    """Cuts texts at added tokens.

    Args:
        normalize: gives the text that `normalized` tokens are looked for in,
            and for each of its characters the one it was made from.
    """

    def __init__(
        self,
        tokens: Sequence[AddedToken],
        normalize: Callable[[str], Normalized],
    ):
        self.tokens = tuple(tokens)
        self._normalize = normalize
        self._exact = {t.content: t for t in tokens if not t.normalized}
        self._normal = {
            text: t
            for t in tokens
            if t.normalized and (text := normalize(t.content)[0])
        }

    def split(self, text: str) -> Iterator[Part]:
        """Yields the parts of `text` in order, without empty ones."""
        if not self.tokens:
            yield Part(None, 0, len(text))
            return
        for part in _find(text, self._exact):
            if part.token or not self._normal:
                yield part
                continue
            chars, sources = self._normalize(text[part.start : part.end])
            begin = part.start
            for found in _find(chars, self._normal):
                if found.token is None:
                    continue
                first, last = found.start, found.end - 1
                start = part.start + sources[first]
                end = part.start + sources[last] + 1
                # The spaces that an ideograph gets are not the text's: they lie
                # before and behind it, and have no width.
                if chars[first].isspace() and first:
                    start += sources[first - 1] == sources[first]
                if chars[last].isspace() and last + 1 < len(chars):
                    end -= sources[last] == sources[last + 1]
                if found.token.lstrip:
                    start = begin + len(text[begin:start].rstrip())
                if found.token.rstrip:
                    end = _after_spaces(text, end, part.end)
                if begin < start:
                    yield Part(None, begin, start)
                yield Part(found.token, start, end)
                begin = end
            if begin < part.end:
                yield Part(None, begin, part.end)


def _find(text: str, tokens: dict[str, AddedToken]) -> Iterator[Part]:
    """The leftmost match counts, and of several there the longest."""
    begin = 0
    contents = sorted(tokens, key=len, reverse=True)
    pattern = "|".join(map(re.escape, contents))
    for match in re.finditer(pattern, text) if tokens else ():
        token, (start, end) = tokens[match.group()], match.span()
        touches = (start and WORD.match(text, start - 1)) or WORD.match(
            text, end
        )
        if token.single_word and touches:
            continue
        if token.lstrip:
            start = begin + len(text[begin:start].rstrip())
        if token.rstrip:
            end = _after_spaces(text, end, len(text))
        if begin < start:
            yield Part(None, begin, start)
        yield Part(token, start, end)
        begin = end
    if begin < len(text):
        yield Part(None, begin, len(text))


def _after_spaces(text: str, start: int, stop: int) -> int:
    spaces = SPACE.match(text, start, stop)
    return spaces.end() if spaces else start

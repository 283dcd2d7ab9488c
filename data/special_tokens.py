"""The tokens that stand for no text, and where they lie in a row.

BERT's: Devlin et al. 2018, section 3. RoBERTa's: Liu et al. 2019, section 2,
and Hugging Face's tokenization_roberta.py. ModernBERT's are BERT's names, in a
byte-level vocabulary: Warner et al. 2024, section 2.2.2.
"""

import dataclasses
from collections.abc import Collection
from typing import Literal


@dataclasses.dataclass(frozen=True)
class SpecialTokens:
    """A row is: start, first text, end; of a pair then also the tokens between,
    second text, end."""

    padding: str
    unknown: str
    start: str
    end: str
    mask: str
    between: tuple[str, ...]
    second_segment: int  # segment id of the second text and the end after it
    is_byte_level: bool = False  # the vocabulary, which has merges then
    # what a text is brought into first
    unicode_form: Literal["NFC"] | None = None

    @property
    def tokens(self) -> tuple[str, ...]:
        """Those that a vocabulary must have."""
        return self.padding, self.unknown, self.start, self.end, self.mask

    def count(self, is_pair: bool) -> int:
        """How many there are in a row."""
        return 3 + len(self.between) if is_pair else 2


BERT = SpecialTokens("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", (), 1)
ROBERTA = SpecialTokens(
    "<pad>", "<unk>", "<s>", "</s>", "<mask>", ("</s>",), 0, is_byte_level=True
)
MODERNBERT = dataclasses.replace(
    BERT, second_segment=0, is_byte_level=True, unicode_form="NFC"
)


def byte_level_tokens(vocab: Collection[str]) -> SpecialTokens:
    """The special tokens of a byte-level vocabulary: RoBERTa's or
    ModernBERT's."""
    has_roberta = ROBERTA.start in vocab
    return ROBERTA if has_roberta or BERT.start not in vocab else MODERNBERT

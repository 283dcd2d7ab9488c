"""The tokens that stand for no text, and where they lie in a row.

BERT's: Devlin et al. 2018, section 3. RoBERTa's: Liu et al. 2019, section 2,
and Hugging Face's tokenization_roberta.py.
"""

import dataclasses


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

    @property
    def tokens(self) -> tuple[str, ...]:
        """Those that a vocabulary must have."""
        return self.padding, self.unknown, self.start, self.end, self.mask

    def count(self, is_pair: bool) -> int:
        """How many there are in a row."""
        return 3 + len(self.between) if is_pair else 2


BERT = SpecialTokens("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", (), 1)
ROBERTA = SpecialTokens("<pad>", "<unk>", "<s>", "</s>", "<mask>", ("</s>",), 0)

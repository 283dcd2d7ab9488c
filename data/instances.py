"""Documents -> sentence pairs with masks: what pre-training records hold.

BERT paper, section 3.1 and appendix A.2; google-research/bert,
create_pretraining_data.py. The calls of the random generator come in that
file's order, so that equal text, vocabulary and seed give equal records, in
equal order (Python 3's generators have not changed since 3.2).
"""

import dataclasses
import itertools
import random
from collections.abc import Callable, Iterable, Mapping, Sequence

from bert_keras.data.input_features import build_inputs
from bert_keras.data.masking import MaskConfig, mask_tokens
from bert_keras.data.record_schema import pretraining_features
from bert_keras.data.special_tokens import BERT, SpecialTokens
from bert_keras.data.tokenization import UNKNOWN, is_ideograph
from bert_keras.errors import InputError

Document = list[list[str]]  # sentences, each a list of tokens

WHY_DOCUMENTS = (
    ", but next sentence prediction draws its wrong second sentences from "
    "other documents: with one alone they would come from the same text and "
    "still be labelled wrong; put a blank line between documents, or "
    "give `sequence_format=full_sentences` (without `sampler=google`), whose "
    "records are not pairs and do not need a second document"
)
SEGMENT_PAIR, SENTENCE_PAIR, FULL_SENTENCES, DOC_SENTENCES = FORMATS = (
    "segment_pair",
    "sentence_pair",
    "full_sentences",
    "doc_sentences",
)


@dataclasses.dataclass(frozen=True)
class InstanceConfig(MaskConfig):
    """How pairs are cut and masked; the defaults are Google's."""

    max_seq_length: int = 128  # tokens, with [CLS] and [SEP]
    dupe_factor: int = 10  # times each document is cut and masked anew
    short_seq_prob: float = 0.1  # share of documents cut to a shorter target
    random_seed: int = 12345
    dynamic_masking: bool = False  # no masks: who reads the records draws them
    sequence_format: str = SEGMENT_PAIR  # of FORMATS; data/segment_sampling.py

    @property
    def is_pair(self) -> bool:
        """Whether records are pairs, with a label of next sentences."""
        return self.sequence_format in (SEGMENT_PAIR, SENTENCE_PAIR)

    def check(self, special_tokens: SpecialTokens = BERT) -> None:
        """Raises an InputError that names the argument to change."""
        num_special_tokens = special_tokens.count(self.is_pair)
        shortest = num_special_tokens + 1 + self.is_pair
        if self.max_seq_length < shortest:
            raise InputError(
                f"`max_seq_length={self.max_seq_length}` is too small: "
                f"{num_special_tokens} special tokens such as "
                f"{special_tokens.start} and a token of "
                f"{'each' if self.is_pair else 'a'} sentence need {shortest}"
            )
        most = self.max_seq_length - num_special_tokens
        if not 1 <= self.max_predictions_per_seq <= most:
            raise InputError(
                f"`max_predictions_per_seq={self.max_predictions_per_seq}` "
                f"must lie between 1 and {most}, the tokens that can be masked "
                f"at `max_seq_length={self.max_seq_length}`"
            )
        for name, least in (("random_seed", 0), ("dupe_factor", 1)):
            if getattr(self, name) < least:
                raise InputError(
                    f"`{name}={getattr(self, name)}` must be at least {least}"
                )
        self.check_shares("masked_lm_prob", "short_seq_prob")


@dataclasses.dataclass(frozen=True)
class Instance:
    """One record, in tokens: [CLS] A [SEP] B [SEP] with holes."""

    tokens: list[str]
    segment_ids: list[int]  # 0 up to the first [SEP], then 1
    is_random_next: bool  # B was drawn from a random document
    is_truncated: bool  # tokens were cut off to fit
    masked_lm_positions: list[int]
    masked_lm_labels: list[str]


def read_documents(
    files: Iterable[tuple[str, Iterable[str]]],
    tokenize: Callable[[str], list[str]],
) -> list[Document]:
    """Tokenizes files, of which each is a name and its lines: a sentence a
    line, a blank line between documents.

    As in Google's code a document goes on from one file into the next unless
    a blank line ends it, and sentences without tokens are dropped.
    """
    documents: list[Document] = [[]]
    for name, lines in files:
        has_text = has_blank = False
        for line in lines:
            line = line.strip()
            if not line:
                has_blank = True
                documents.append([])
            pieces = tokenize(line)
            if pieces:
                has_text = True
                documents[-1].append(pieces)
        if not has_text:
            raise InputError(f"{name} is empty: it holds no text")
        # Theirs: such a file is glued to the next one's first document. Ours:
        # an error, because pairs across that seam would be labelled "is next".
        if not has_blank:
            raise InputError(
                f"{name} has no blank line, so it is a single document"
                f"{WHY_DOCUMENTS}"
            )
    documents = [document for document in documents if document]
    if len(documents) < 2:
        raise InputError(f"the input is a single document{WHY_DOCUMENTS}")
    return documents


def create_instances(
    documents: Iterable[Document],
    vocab_words: Sequence[str],
    config: InstanceConfig,
    rng: random.Random,
    progress: Callable[[Sequence[int]], Iterable[int]] = iter,
) -> list[Instance]:
    """Cuts and masks every document dupe_factor times, shuffled at the end.

    Args:
      vocab_words: tokens that random replacements are drawn from.
      progress: wraps the iteration over visits to documents (tqdm, say).
    """
    documents = list(documents)
    rng.shuffle(documents)
    instances: list[Instance] = []
    for visit in progress(range(config.dupe_factor * len(documents))):
        instances += instances_from_document(
            documents, visit % len(documents), vocab_words, config, rng
        )
    rng.shuffle(instances)
    return instances


def instances_from_document(
    documents: Sequence[Document],
    document_index: int,
    vocab_words: Sequence[str],
    config: InstanceConfig,
    rng: random.Random,
) -> list[Instance]:
    """One pass through a document: chunks of whole sentences, cut into A and B.

    B is the rest of the chunk, or (half the time, and always where the chunk
    is one sentence) a stretch of a random document; the sentences it displaces
    are then used again by the next chunk.
    """
    document = documents[document_index]
    longest = config.max_seq_length - BERT.count(is_pair=True)
    # Tokens of A and B together at which a chunk is full; a rough aim.
    target = longest
    if rng.random() < config.short_seq_prob:
        target = rng.randint(2, longest)
    instances = []
    start = 0
    while start < len(document):
        stop = _chunk_end(document, start, target)
        num_sentences = stop - start
        middle = start + 1
        if num_sentences >= 2:
            middle = start + rng.randint(1, num_sentences - 1)
        whole_a = [*itertools.chain(*document[start:middle])]
        whole_b = [*itertools.chain(*document[middle:stop])]
        is_random_next = num_sentences == 1 or rng.random() < 0.5
        if is_random_next:
            # As in Google's code, ten draws that all give this document take
            # it anyway (with two documents, once in a thousand).
            for _ in range(10):
                random_index = rng.randint(0, len(documents) - 1)
                if random_index != document_index:
                    break
            other = documents[random_index]
            first = rng.randint(0, len(other) - 1)
            last = _chunk_end(other, first, target - len(whole_a))
            whole_b = [*itertools.chain(*other[first:last])]
        a, b = truncate_pair(whole_a, whole_b, longest, rng)
        tokens, segment_ids = build_inputs(a, b, config.max_seq_length, BERT)
        masked = mask_tokens(tokens, config, vocab_words, rng)
        instances.append(
            Instance(
                tokens=masked.tokens,
                segment_ids=segment_ids,
                is_random_next=is_random_next,
                is_truncated=len(a) + len(b) < len(whole_a) + len(whole_b),
                masked_lm_positions=masked.positions,
                masked_lm_labels=masked.labels,
            )
        )
        start = middle if is_random_next else stop
    return instances


def _chunk_end(document: Document, start: int, target: int) -> int:
    """The sentence after the one that fills `target`, or the document's end."""
    num_pieces = 0
    for i in range(start, len(document)):
        num_pieces += len(document[i])
        if num_pieces >= target:
            return i + 1
    return len(document)


def truncate_pair(
    tokens_a: list[str],
    tokens_b: list[str],
    max_num_tokens: int,
    rng: random.Random,
) -> tuple[list[str], list[str]]:
    """Cuts single tokens off the longer one's ends until both fit.

    A coin says which end, so that neither beginnings nor ends are favoured.
    Of two equally long ones it is the second's turn.
    """
    bounds = [[0, len(tokens_a)], [0, len(tokens_b)]]
    lengths = [len(tokens_a), len(tokens_b)]
    while sum(lengths) > max_num_tokens:
        longer = 0 if lengths[0] > lengths[1] else 1
        if rng.random() < 0.5:
            bounds[longer][0] += 1
        else:
            bounds[longer][1] -= 1
        lengths[longer] -= 1
    (start_a, end_a), (start_b, end_b) = bounds
    return tokens_a[start_a:end_a], tokens_b[start_b:end_b]


def to_features(
    instance: Instance, vocab: Mapping[str, int], config: InstanceConfig
) -> dict[str, list[float]]:
    """The record's features, padded with zeros (see data/record_schema.py).

    next_sentence_labels is 0 where B does follow A, 1 where it is random.
    """
    labels = [vocab[label] for label in instance.masked_lm_labels]
    values: dict[str, list[float]] = {
        "input_ids": [vocab[token] for token in instance.tokens],
        "input_mask": [1] * len(instance.tokens),
        "segment_ids": [*instance.segment_ids],
        "masked_lm_positions": [*instance.masked_lm_positions],
        "masked_lm_ids": [*labels],
        "masked_lm_weights": [1.0] * len(labels),
        "next_sentence_labels": [int(instance.is_random_next)],
    }
    for feature in pretraining_features(
        config.max_seq_length, config.max_predictions_per_seq
    ):
        own = values[feature.name]
        own += [0] * (feature.length - len(own))
    return values


@dataclasses.dataclass(frozen=True)
class Summary:
    """What went in and what came out, or a part of it: counts."""

    num_documents: int = 0
    num_sentences: int = 0
    num_pieces: int = 0  # of the text, each once whatever the dupe_factor
    num_unknown: int = 0  # of these, [UNK]
    num_ideographs: int = 0  # of num_pieces, a Chinese character each
    num_continued: int = 0  # of num_pieces, those that continue a word
    num_records: int = 0
    num_random_next: int = 0  # of these, those of label 1
    num_truncated: int = 0  # records whose pair was cut to fit
    num_tokens: int = 0  # in all records, [CLS] and [SEP] too, padding not
    num_masked: int = 0  # of these, to be predicted

    def __add__(self, other: "Summary") -> "Summary":
        both = zip(
            dataclasses.astuple(self), dataclasses.astuple(other), strict=True
        )
        return Summary(*map(sum, both))


def summarize(
    documents: Sequence[Document], instances: Sequence[Instance]
) -> Summary:
    """Counts once through documents and instances."""
    sentences = [sentence for document in documents for sentence in document]
    return Summary(
        num_documents=len(documents),
        num_sentences=len(sentences),
        num_pieces=sum(map(len, sentences)),
        num_unknown=sum(sentence.count(UNKNOWN) for sentence in sentences),
        num_records=len(instances),
        num_random_next=sum(instance.is_random_next for instance in instances),
        num_truncated=sum(instance.is_truncated for instance in instances),
        num_tokens=sum(len(instance.tokens) for instance in instances),
        num_masked=sum(
            len(instance.masked_lm_positions) for instance in instances
        ),
        num_ideographs=sum(
            is_ideograph(piece) for sentence in sentences for piece in sentence
        ),
        num_continued=sum(
            piece.startswith("##")
            for sentence in sentences
            for piece in sentence
        ),
    )

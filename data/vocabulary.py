"""Vocabularies: learning one from text, writing it, and checking any.

The learner is Hugging Face `tokenizers`' WordPieceTrainer (it merges pairs by
frequency, as BPE does; Google never released its own). The layout is that of
the released uncased model: [PAD] is 0, then [unused] slots, then the other
special tokens, then all others. With 99 slots [UNK], [CLS], [SEP] and [MASK]
are 100 to 103 as in every model that Google released.
"""

import collections
import sys
from collections.abc import Iterable, Mapping

from bert_keras.data import tokenization
from bert_keras.data.special_tokens import BERT
from bert_keras.errors import InputError, say_once

PAD, UNKNOWN, START, SEPARATOR, MASK = SPECIAL_TOKENS = BERT.tokens
NUM_UNUSED = 99
MIN_FREQUENCY = 2
MAX_PIECES, MAX_PIECE_CHARS = 10_000_000, 10_000  # of any that is read
REPEATS_PER_CHUNK = 10_000  # of one word, handed to the learner at a time


def check_vocabulary(vocab_file: str) -> dict[str, int]:
    """Loads a vocab.txt, or says in an InputError what is wrong with it.

    Returns:
      token -> id. Of a token that is listed twice the later number counts,
      as in Google's code and transformers; a line on stderr says so.
    """
    pieces: list[str] = []
    try:
        with open(vocab_file, encoding="utf-8", newline="\n") as file:
            # The file may be anything: it is read in bounded memory.
            while line := file.readline(MAX_PIECE_CHARS + 1):
                if len(line) > MAX_PIECE_CHARS or len(pieces) == MAX_PIECES:
                    raise InputError(
                        f"{vocab_file} is not a vocabulary: line "
                        f"{len(pieces) + 1} is past {MAX_PIECES:,} lines or "
                        f"{MAX_PIECE_CHARS:,} characters"
                    )
                pieces.append(line.strip())
    except UnicodeDecodeError as error:
        raise InputError(
            f"the vocabulary {vocab_file} is not UTF-8 text"
        ) from error
    except OSError as error:
        raise InputError(
            f"cannot read `vocab_file={vocab_file}`: {error.strerror}"
        ) from error
    if not any(pieces):
        raise InputError(f"the vocabulary {vocab_file} is empty")
    vocab: dict[str, int] = {}
    repeats = []
    for number, piece in enumerate(pieces):
        # Empty lines may repeat: released vocabularies list exotic white
        # space (U+2028 in Chinese), which stripping leaves empty.
        if piece in vocab and piece:
            repeats.append(f"{number + 1}: {piece}, as in {vocab[piece] + 1}")
        vocab[piece] = number
    if repeats:
        say_once(
            f"{vocab_file} repeats tokens in {len(repeats)} lines "
            f"({'; '.join(repeats[:3])}); the last line of a token is its id"
        )
    missing = [token for token in SPECIAL_TOKENS if token not in vocab]
    if missing:
        raise InputError(
            f"{vocab_file} is not a BERT vocabulary: it lacks "
            f"{', '.join(missing)}"
        )
    return vocab


def cased_share(tokens: Iterable[str]) -> float:
    """The share of a vocabulary's tokens that have capitals, special ones such
    as [CLS] and <S> aside: 0.29 in Google's cased model, 0.16 in the cased
    multilingual one."""
    words = [token for token in tokens if not token.startswith(("[", "<"))]
    num_cased = sum(word != word.lower() for word in words)
    return num_cased / max(1, len(words))


def count_words(
    lines: Iterable[str], tokenizer: tokenization.BasicTokenizer | None = None
) -> dict[str, int]:
    """Word -> occurrences, words being the basic tokenizer's.

    Sorted by word, so that equal texts give equal dictionaries.
    """
    tokenizer = tokenizer or tokenization.BasicTokenizer()
    raw_counts: collections.Counter[str] = collections.Counter()
    for line in lines:
        raw_counts.update(tokenizer.clean(line).split())
    counts: collections.Counter[str] = collections.Counter()
    for raw_word, count in raw_counts.items():
        for word, _ in tokenizer.split_word(raw_word):
            counts[word] += count
    return dict(sorted(counts.items()))


def learn(
    word_counts: Mapping[str, int],
    vocab_size: int,
    num_unused: int = NUM_UNUSED,
    min_frequency: int = MIN_FREQUENCY,
) -> list[str]:
    """Learns a vocabulary of at most vocab_size tokens, in order of their ids:
    the special ones, characters, their "##" forms, then merges.

    Shows its progress on stderr where that is a terminal.

    Args:
      word_counts: from `count_words`.
      vocab_size: tokens, with the special ones and the unused slots.
      num_unused: slots [unused0], [unused1], ... for the user's own words.
      min_frequency: occurrences below which neither a character nor a pair
        of tokens enters the vocabulary.
    """
    if not word_counts:
        raise InputError("the text is empty: it holds no word to learn from")
    reserved = [PAD, *(f"[unused{i}]" for i in range(num_unused))]
    reserved += [UNKNOWN, START, SEPARATOR, MASK]
    room = vocab_size - len(reserved)
    words = _spellable(word_counts, room, min_frequency)
    if not words:
        raise InputError(
            f"`vocab_size={vocab_size}` leaves {max(room, 0)} tokens beside "
            f"{len(reserved)} special and unused ones, and no word of the text "
            f"can be spelled with them at `min_frequency={min_frequency}`"
        )
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    characters = sorted({char for word in words for char in word})
    inner = sorted({"##" + char for word in words for char in word[1:]})
    learner = Tokenizer(models.WordPiece(unk_token=UNKNOWN))
    learner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordPieceTrainer(
        vocab_size=room,
        min_frequency=min_frequency,
        initial_alphabet=characters,
        # Left alone it numbers "##" characters in a hash map's order and
        # breaks ties by these numbers, so that two runs on one text differ
        # (huggingface/tokenizers#1794). Given as special tokens they are
        # numbered in this order, and nothing else depends on the map.
        special_tokens=inner,
        show_progress=sys.stderr.isatty(),  # elsewhere it prints empty lines
    )
    # The learner does its own counting: it reads each word as often as it is.
    texts = (
        f"{word} " * min(REPEATS_PER_CHUNK, count - start)
        for word, count in words.items()
        for start in range(0, count, REPEATS_PER_CHUNK)
    )
    learner.train_from_iterator(texts, trainer)
    numbers = learner.get_vocab()
    merges = numbers.keys() - {*characters, *inner}
    merged = sorted(merges, key=numbers.__getitem__)
    return reserved + characters + inner + merged


def _spellable(
    word_counts: Mapping[str, int], room: int, min_frequency: int
) -> dict[str, int]:
    """The words whose characters get into the vocabulary; others are [UNK].

    The commonest characters do, while they and their "##" forms fill at most
    half the room: a rare script must not crowd out the words.
    """
    totals: collections.Counter[str] = collections.Counter()
    inner: set[str] = set()
    for word, count in word_counts.items():
        inner.update(word[1:])
        for char in word:
            totals[char] += count
    kept: set[str] = set()
    num_forms = 0
    for char in sorted(totals, key=lambda char: (-totals[char], char)):
        num_forms += 1 + (char in inner)
        if totals[char] < min_frequency or 2 * num_forms > room:
            break
        kept.add(char)
    return {
        word: count
        for word, count in word_counts.items()
        if len(word) <= tokenization.MAX_CHARS_PER_WORD
        and kept.issuperset(word)
    }


def spelling(
    word_counts: Mapping[str, int], vocab: Mapping[str, int]
) -> tuple[float, float]:
    """Tokens of a word in the mean, and the share of words that are [UNK]; each
    counts as often as it occurs."""
    tokenizer = tokenization.WordpieceTokenizer(vocab)
    num_pieces = num_unknown = 0
    for word, count in word_counts.items():
        spans = tokenizer.split(word)
        num_pieces += count * len(spans)
        num_unknown += count * (spans[0].token == UNKNOWN)
    total = sum(word_counts.values())
    return num_pieces / total, num_unknown / total


def new_words(
    word_counts: Mapping[str, int], vocab: Mapping[str, int]
) -> list[str]:
    """The words that are not a token yet, the most frequent first."""
    words = [
        word
        for word in word_counts
        if word not in vocab and len(word) <= tokenization.MAX_CHARS_PER_WORD
    ]
    return sorted(words, key=lambda word: (-word_counts[word], word))

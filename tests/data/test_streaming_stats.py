"""Lengths, repeats and favourites, against counts by hand."""

import pytest

from bert_keras.data import streaming_stats


def test_percentile_is_the_least_length_that_so_many_do_not_exceed() -> None:
    counts = [0, 1, 0, 2, 1]  # lengths 1, 3, 3, 4
    percents = (0.1, 25, 26, 75, 76, 100)
    found = [
        streaming_stats.percentile(counts, percent) for percent in percents
    ]
    assert found == [1, 1, 3, 3, 4, 4]


def test_repeats() -> None:
    things = streaming_stats.DuplicateFinder()
    for thing in (b"a", b"b", b"a", b"c", b"a", b"b"):
        things.add(thing)
    number, most = things.repeats(5)
    assert number == 3
    assert [(x.first, x.times) for x in most] == [(0, 3), (1, 2)]
    assert most[0].fingerprint == streaming_stats.fingerprint(b"a")
    assert things.repeats(1)[1] == most[:1]
    assert streaming_stats.DuplicateFinder().repeats(5) == (0, [])


def test_commonest_forgets_the_rarer_half(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streaming_stats, "MAX_KEYS", 4)
    words = streaming_stats.HeavyHitters()
    words.update("aaabbccd")
    assert words.top(9) == [("a", 3), ("b", 2), ("c", 2), ("d", 1)]
    words.update("e")  # a fifth: two stay
    assert words.top(9) == [("a", 3), ("b", 2)]


def test_bars_cover_each_length_once() -> None:
    counts = [0] * 34
    counts[2], counts[5], counts[33] = 1, 80, 2
    lines = streaming_stats.format_lengths(counts).splitlines()
    assert lines[0].split() == "share 1% 5% 25% 50% 75% 95% 99%".split()
    assert lines[1].split() == "up to 2 5 5 5 5 5 33".split()
    shown = [tuple(line.split()) for line in lines[2:]]
    assert shown[:3] == [
        ("0-2", "1", "#"),
        ("3-5", "80", 40 * "#"),
        ("6-8", "0"),
    ]
    assert shown[-1] == ("33", "2", "#")
    assert streaming_stats.format_lengths([0, 0]) == "  none"

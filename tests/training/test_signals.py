"""Tests of training/signals.py."""

import os
import signal

import pytest

from bert_keras.training.signals import StopRequest


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)]
)
def test_a_signal_is_obeyed_when_the_step_is_saved(
    number: signal.Signals, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(number)
    with pytest.raises(SystemExit) as caught, StopRequest() as request:
        assert request.number is None
        os.kill(os.getpid(), number)
        with pytest.raises(SystemExit):
            os.kill(os.getpid(), number)  # a second one is not noted
        request.exit_if_requested(17)
    assert caught.value.code == code
    assert f"{number.name} after step 17" in capsys.readouterr().err
    assert signal.getsignal(number) is before


def test_a_signal_that_nobody_saw_takes_effect_in_the_end() -> None:
    with pytest.raises(SystemExit) as caught, StopRequest():
        os.kill(os.getpid(), signal.SIGINT)
    assert caught.value.code == 130

"""Settings that keep a run from learning."""

from bert_keras.tasks.checkpoint_compatibility import optimizer_hints
from bert_keras.training.config import OptimizerConfig


def test_a_warm_up_that_is_longer_than_the_run() -> None:
    short = OptimizerConfig(num_train_steps=1000, num_warmup_steps=1000)
    [hint] = optimizer_hints(short, begins_at_random=False)
    assert "rises for 1,000 steps and the run has only 1,000" in hint
    long = OptimizerConfig(num_train_steps=1001, num_warmup_steps=1000)
    assert optimizer_hints(long, begins_at_random=True) == []


def test_a_warm_up_that_reaches_into_the_decay() -> None:
    def hints(warmup: int) -> list[str]:
        config = OptimizerConfig(
            num_train_steps=100,
            num_warmup_steps=warmup,
            learning_rate_schedule="wsd",
            num_decay_steps=60,
        )
        return optimizer_hints(config, begins_at_random=False)

    [hint] = hints(41)
    assert "begins after step 40, so that the rate drops at once" in hint
    assert hints(40) == []


def test_a_warm_up_that_is_short_for_adam() -> None:
    def hints(warmup: int, at_random: bool = True, **settings: object) -> int:
        config = OptimizerConfig(
            num_warmup_steps=warmup,
            **settings,  # type: ignore[arg-type]
        )
        return len(optimizer_hints(config, at_random))

    [hint] = optimizer_hints(OptimizerConfig(num_warmup_steps=499), True)
    assert "at least 500 steps" in hint  # 1 / (1 - 0.999) is 1,000
    assert hints(499) == 1
    assert hints(500) == 0
    assert hints(499, at_random=False) == 0
    assert hints(499, bias_correction=True) == 0
    assert hints(499, optimizer_type="lamb") == 0
    assert hints(24, adam_beta_2=0.98) == 1  # 50
    assert hints(25, adam_beta_2=0.98) == 0

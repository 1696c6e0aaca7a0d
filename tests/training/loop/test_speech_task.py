"""The words that a synthesiser says are learned, and understood from voices that are new."""

from lplab.training import tasks


def test_a_small_net_understands_voices_that_it_never_heard():
    task = tasks.get("speech")
    run = task.trainer("fp32")
    before = run.evaluate(*task.test())["error"]
    list(run.steps(200))
    after = run.evaluate(*task.test())["error"]
    assert before > 0.8 and after < 0.5  # guessing: 0.9

"""Names that nobody knows are refused before a cluster is made."""

from __future__ import annotations

import pytest

from jepsen.cli import main


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--workload", "queue,que"], "there is no workload 'que'"),
        (["--plan", "nobody"], "there is no plan 'nobody'"),
        (["--workload", "balanced", "--target", "kafka"], "workload balanced is of kraft alone"),
        (["--workload", "balanced", "--target", "mixed"], "workload balanced is of kraft alone"),
        (["--workload", "tiered", "--target", "mixed"], "workload tiered is of kraft alone"),
        (["--plan", "roll"], "plan roll is of the target mixed alone"),
    ],
)
def test_an_unknown_name_is_rejected(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", *arguments])
    assert ended.value.code == 2
    assert told in capsys.readouterr().err

"""benchmarks/quantization.py: what it asks for."""

from __future__ import annotations

from quantization import SETTINGS, commands

from modelzoo.cli.app import make_parser


def test_every_command_can_be_parsed() -> None:
    """With different settings, the first of them in fp32; what is given wins."""
    parsed = [make_parser().parse_args(each) for each in commands(["--weights", "/tuned", "--processes", "1"])]
    assert [args.workloads for args in parsed] == [[name] for name in SETTINGS]
    for args in parsed:
        assert (args.weights, args.processes) == ("/tuned", 1)
        assert len(set(args.setting)) == len(args.setting) > 2
        assert "precision=fp32" in args.setting[0]
    assert [each[1] for each in commands(["ssd", "--validate"])] == ["ssd"]

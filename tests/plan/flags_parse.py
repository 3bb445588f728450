#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Do frameworks' own parsers accept what `stoker plan train --flags` prints?

    python3 tests/plan/flags_parse.py FRAMEWORK <text     exit 0: accepted; 77: the framework is not installed

deepspeed: its DeepSpeedConfig reads the JSON; torchtitan: its ConfigManager, with the checks of its trainer,
on a model of its registry; accelerate: the parser of `accelerate launch`.  Megatron-LM's parser is not in the megatron-core package.
"""
import json
import os
import re
import shlex
import sys
import tempfile


def command(text):
    """The words of the command, comments and the file in front of it left out."""
    text = re.sub(r"cat >\S+ <<'END'\n.*?\nEND\n", "", text, flags=re.S)
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    os.environ.update(RANK_OF_NODE="0", HEAD_NODE="node0")  # the shell's part
    return shlex.split(os.path.expandvars(" ".join(lines).replace("\\", " ")))


def deepspeed(text):
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    from deepspeed.runtime.config import DeepSpeedConfig
    settings = json.loads(re.search(r"<<'END'\n(.*?)\nEND\n", text, re.S)[1])
    each = settings["train_micro_batch_size_per_gpu"] * settings["gradient_accumulation_steps"]
    assert settings["train_batch_size"] % each == 0
    settings["train_batch_size"] = each  # this process is one rank
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump(settings, f)
        f.flush()
        config = DeepSpeedConfig(f.name)
    assert config.zero_optimization_stage == settings["zero_optimization"]["stage"]
    assert config.train_batch_size == settings["train_batch_size"]


def torchtitan(text):
    from torchtitan.config.manager import ConfigManager

    words = command(text)
    at = words.index("torchtitan.train") + 1
    assert words[at:at + 4] == ["--module", "your_model", "--config", "your_config"], words
    experts = "--parallelism.expert_parallel_degree" in words
    own = ["--module", "deepseek_v3", "--config", "deepseek_v3_16b"] if experts else ["--module", "llama3", "--config", "llama3_8b"]
    got = ConfigManager().parse_args(own + words[at + 4:])
    wanted = dict(zip(words, words[1:]))
    assert got.parallelism.tensor_parallel_degree == int(wanted["--parallelism.tensor_parallel_degree"])
    assert got.training.global_batch_size == int(wanted["--training.global_batch_size"])
    assert got.compile.enable == ("--compile.enable" in words)
    assert not got.compile.enable or set(got.compile.components) == {"model", "loss"}
    dims = got.parallelism
    fsdp = dims.data_parallel_shard_degree * dims.context_parallel_degree  # of its ParallelDims, which wants the ranks
    assert fsdp * dims.tensor_parallel_degree % dims.expert_parallel_degree == 0, dims


def accelerate(text):
    from accelerate.commands.launch import launch_command_parser
    words = command(text)
    assert words[:2] == ["accelerate", "launch"], words
    args = launch_command_parser().parse_args(words[2:])
    assert args.training_script == "train.py" and not args.training_script_args, args
    assert args.dynamo_backend == "inductor", args


def main():
    try:
        {"deepspeed": deepspeed, "torchtitan": torchtitan, "accelerate": accelerate}[sys.argv[1]](sys.stdin.read())
    except ModuleNotFoundError as e:
        print(f"there is no module '{e.name}'", file=sys.stderr)
        return 77
    return 0


if __name__ == "__main__":
    sys.exit(main())

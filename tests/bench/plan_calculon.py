#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The search's figures, and calculon's on the same job beside them.

    plan_calculon.py BENCH CALCULON SECONDS MODEL GPUS BATCH SEQ GPU

BENCH is build/tests/bench-plan.  CALCULON is a checkout of github.com/calculon-ai/calculon ('': not run; its numpy has to
be there).  It has the space of its own `llm-optimal-execution` for the job (the model of models/gpt3-175B.json or another
that is named as ours, systems/a100_80g.json without the second memory, so without offload), which is counted, shuffled with
a fixed seed and evaluated for SECONDS on one core: the whole takes more than an hour.  Rates are configurations a second
and core; a configuration that its own checks refuse counts for calculon, as it does in its own figure.

Ends with RESULT plan.calculon_configs_per_s, plan.calculon_space and plan.vs_calculon: our rate over its."""
import itertools
import json
import logging
import pathlib
import random
import re
import subprocess
import sys
import time
import types

VS_WANTED = 5000


def space(llm, app, syst, gpus, most):
    """What its search tries, one dict each."""
    for tp in llm.get_all_tensor_parallelisms(gpus, app.hidden, app.attn_heads):
        for pp in llm.get_all_pipeline_parallelisms(gpus, tp, app.num_blocks):
            dp = llm.get_data_parallelism(gpus, tp, pp)
            if dp > most:
                continue
            batch = most // dp * dp
            for chunks, recompute, shard, comm in itertools.product(
                    llm.get_valid_pipeline_interleavings(app.num_blocks, pp), ("full", "attn_only", "none"),
                    (True, False) if dp > 1 else (False,), ("ar", "p2p_rs_ag", "rs_ag")):
                for redo, dpo, tpo, micro, tn, pn, dn in itertools.product(
                        (True, False) if llm.can_redo_ag(comm, recompute) else (False,),
                        (True, False) if dp > 1 else (False,),
                        ("none", "ring", "pipe") if tp > 1 else ("none",),
                        list(llm.get_valid_microbatch_sizes(app.seq_size, tp, dp, batch, pp)),
                        range(syst.num_networks) if tp > 1 else (0,),
                        range(syst.num_networks) if pp > 1 else (0,),
                        range(syst.num_networks) if dp > 1 else (0,)):
                    yield {
                        "num_procs": gpus, "tensor_par": tp, "pipeline_par": pp, "data_par": dp, "tensor_par_net": tn,
                        "pipeline_par_net": pn, "data_par_net": dn, "batch_size": batch, "microbatch_size": micro,
                        "datatype": "float16", "fused_activation": True, "attention_type": "multihead",
                        "activation_recompute": recompute, "pipeline_interleaving": chunks, "optimizer_sharding": shard,
                        "tensor_par_comm_type": comm, "tensor_par_overlap": tpo, "seq_par_ag_redo": redo,
                        "data_par_overlap": dpo, "weight_offload": False, "activations_offload": False,
                        "optimizer_offload": False, "training": True}


def run_calculon(folder, seconds, model, gpus, batch):
    """Its rate, the size of its space, the share that is valid, its best seconds a step."""
    sys.path.insert(0, str(folder))
    try:
        import psutil  # noqa: F401  calculon asks it for the number of cores, which we do not need
    except ImportError:
        sys.modules["psutil"] = types.SimpleNamespace(cpu_count=lambda logical=True: 1)
    from calculon import System
    from calculon.llm import Llm

    name = next((p for p in (folder / "models").glob("*.json") if p.stem.lower() == model.lower()), None)
    if name is None:
        raise FileNotFoundError(f"calculon has no model '{model}'")
    with open(folder / "systems" / "a100_80g.json", encoding="utf-8") as f:
        system = json.load(f)
    system["mem2"]["GiB"] = 0
    with open(name, encoding="utf-8") as f:
        app = Llm.Application(json.load(f))
    syst, log = System(system), logging.Logger("calculon")
    every = list(space(Llm, app, syst, gpus, batch))
    random.Random(1).shuffle(every)
    begin, done, valid, best = time.process_time(), 0, 0, None
    for one in every:
        try:
            llm = Llm(app, log)
            llm.compile(syst, Llm.Execution.from_json(one))
            llm.run(syst)
            stats = llm.get_stats_json(False)
            valid += 1
            best = min(best or 1e99, one["batch_size"] / stats["sample_rate"])
        except Llm.Error:
            pass
        done += 1
        if done % 32 == 0 and time.process_time() - begin > seconds:
            break
    return done / (time.process_time() - begin), len(every), valid / done, best


def main():
    bench, folder, seconds, model, gpus, batch, seq, gpu = sys.argv[1:9]
    out = subprocess.run([bench, model, gpus, batch, seq, gpu], stdout=subprocess.PIPE, text=True, check=True).stdout
    print(out, end="")
    ours = float(re.search(r"RESULT plan\.configs_per_s (\S+)", out).group(1))
    if not folder:
        print("calculon is not run: give its checkout as CALCULON=DIR (github.com/calculon-ai/calculon)")
        return 0
    try:
        rate, size, valid, best = run_calculon(pathlib.Path(folder), float(seconds), model, int(gpus), int(batch))
    except (ImportError, OSError) as e:
        print(f"calculon is not run: {e} (BENCH_PYTHON=DIR/bin/python names a Python that has numpy and pandas)")
        return 0
    print(f"calculon: {size} configurations would take {size / rate:.0f} s on one core; {100 * valid:.1f} % of those tried "
          f"are valid; its best of them takes {best:.2f} s a step" if best else "calculon: nothing it tried is valid")
    print(f"RESULT plan.calculon_space {size} configurations")
    print(f"RESULT plan.calculon_configs_per_s {rate:.4g} 1/s")
    print(f"RESULT plan.vs_calculon {ours / rate:.4g} times {VS_WANTED} {'ok' if ours / rate >= VS_WANTED else 'short'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

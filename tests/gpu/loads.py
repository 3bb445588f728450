#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Loads that a GPU machine is limited by, one way each; needs torch and an NVIDIA GPU.

    tests/gpu/loads.py CLASS SECONDS [--cpus LIST]

Prints `ready` when the load runs, and ends after SECONDS.

    idle      nothing; the driver is not touched
    gemm      bf16 products of 8192 x 8192: the matrix units
    devcopy   copies within device memory: its bandwidth
    h2d       copies from pinned host memory: PCIe towards the device
    d2h       copies to pinned host memory: PCIe from the device
    launch    kernels of a microsecond, one after the other from one thread: the host
    dataload  steps that wait for files to be read and decoded: data loading
    train     forward, backward and optimiser of a small transformer, a checkpoint now and then
    encode    short batches through an encoder, with pauses: serving
"""
import argparse
import os
import sys
import tempfile
import time

FILE_MIB, FILES = 96, 8


class Clock:
    """True until the seconds are over, counted from the first question."""

    def __init__(self, seconds):
        self.seconds, self.end = seconds, None

    def __call__(self):
        if self.end is None:
            print("ready", flush=True)
            self.end = time.monotonic() + self.seconds
        return time.monotonic() < self.end


def idle(_, going):
    while going():
        time.sleep(0.1)


def gemm(torch, going):
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    out = torch.empty_like(a)
    while going():
        for _ in range(20):
            torch.matmul(a, b, out=out)
        torch.cuda.synchronize()


def devcopy(torch, going):
    a, b = (torch.randn(1 << 30, device="cuda") for _ in range(2))
    while going():
        for _ in range(20):
            b.copy_(a)
        torch.cuda.synchronize()


def transfer(torch, going, up):
    host = torch.randn(1 << 28, pin_memory=True)
    device = torch.empty(1 << 28, device="cuda")
    while going():
        for _ in range(4):
            (device if up else host).copy_(host if up else device, non_blocking=True)
        torch.cuda.synchronize()


def launch(torch, going):
    a = torch.randn(256, device="cuda")
    while going():
        for _ in range(2000):
            a.mul_(1.0001)
        torch.cuda.synchronize()


def dataload(torch, going):
    """Reads a file past the page cache, decodes it on one core, then a short step on the device."""
    import numpy as np
    weight = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    with tempfile.TemporaryDirectory(dir=".") as folder:
        names = [os.path.join(folder, str(i)) for i in range(FILES)]
        for name in names:
            with open(name, "wb") as f:
                f.write(os.urandom(FILE_MIB << 20))
                f.flush()
                os.fsync(f.fileno())
        step = 0
        while going():
            with open(names[step % FILES], "rb", buffering=0) as f:
                os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                raw = np.frombuffer(f.read(), dtype=np.uint8)
            pixels = (raw[:4096 * 4096].astype(np.float32) / 255 - 0.5).reshape(4096, 4096)
            x = torch.from_numpy(pixels).to("cuda").bfloat16()
            for _ in range(10):
                x = torch.tanh(x @ weight)
            torch.cuda.synchronize()
            step += 1


def train(torch, going):
    layer = torch.nn.TransformerEncoderLayer(2048, 16, 8192, batch_first=True, device="cuda", dtype=torch.bfloat16)
    model = torch.nn.TransformerEncoder(layer, 12)
    optimiser = torch.optim.AdamW(model.parameters())
    x, step = torch.randn(8, 1024, 2048, device="cuda", dtype=torch.bfloat16), 0
    while going():
        model(x).float().pow(2).mean().backward()
        optimiser.step()
        optimiser.zero_grad()
        step += 1
        if step % 100 == 0:
            torch.cuda.synchronize()
            saved = [p.detach().cpu() for p in model.parameters()]
            del saved
            time.sleep(2)
    torch.cuda.synchronize()


def encode(torch, going):
    layer = torch.nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True, device="cuda", dtype=torch.bfloat16)
    model, step = torch.nn.TransformerEncoder(layer, 24).eval(), 0
    with torch.inference_mode():
        while going():
            x = torch.randn(8 + step * 7 % 57, 128, 1024, device="cuda", dtype=torch.bfloat16)
            model(x).mean(1).cpu()
            time.sleep(0.004 * (step // 200 % 5))
            step += 1


CLASSES = {"idle": idle, "gemm": gemm, "devcopy": devcopy, "launch": launch, "dataload": dataload, "train": train, "encode": encode,
           "h2d": lambda t, g: transfer(t, g, True), "d2h": lambda t, g: transfer(t, g, False)}


def main():
    ap = argparse.ArgumentParser(usage=__doc__)
    ap.add_argument("kind", choices=CLASSES)
    ap.add_argument("seconds", type=float)
    ap.add_argument("--cpus", help="numbers with commas")
    args = ap.parse_args()
    if args.cpus:
        os.sched_setaffinity(0, {int(c) for c in args.cpus.split(",")})
    torch = None
    if args.kind != "idle":
        import torch
        if not torch.cuda.is_available():
            sys.exit("loads.py: torch sees no GPU")
    CLASSES[args.kind](torch, Clock(args.seconds))


if __name__ == "__main__":
    main()

# A hook that writes a snapshot at the moment of the failure, one file a process: safe with any number of ranks.
# Call install() in every process, after torch.cuda.set_device() and before the model is built. PyTorch 2.1 or later.
#
# Cost: as recording alone; writing takes seconds, once a failure, and at most `most` times a process.
import os
import socket
import sys
import time

import torch


def install(directory=".", max_entries=100_000, most=2):
    torch.cuda.init()
    torch.cuda.memory._record_memory_history(max_entries=max_entries, stacks="python")
    written = 0

    def observer(device, alloc, device_alloc, device_free):
        nonlocal written
        if written >= most:
            return
        written += 1
        rank = os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0"))
        name = f"oom_{socket.gethostname()}_rank{rank}_pid{os.getpid()}_{time.strftime('%Y%m%d-%H%M%S')}_{written}.pickle"
        try:
            os.makedirs(directory, exist_ok=True)
            torch.cuda.memory._dump_snapshot(os.path.join(directory, name))
        except Exception as error:  # A full disk must not hide the real error, which PyTorch raises after this.
            print(f"no snapshot: {error}", file=sys.stderr)

    if hasattr(torch._C, "_cuda_attach_out_of_memory_observer"):
        torch._C._cuda_attach_out_of_memory_observer(observer)
    else:
        print("this build of PyTorch has no out-of-memory observer", file=sys.stderr)

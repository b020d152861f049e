# Hugging Face Trainer. oom_hook.py is what `oomscope howto hook` prints.
#
#   trainer = Trainer(..., callbacks=[MemorySnapshot("snapshots")])
#
# Cost: see oom_hook.py; the snapshot after `dump_after` steps shows steps that went well.
import os

import torch
from transformers import TrainerCallback

import oom_hook


class MemorySnapshot(TrainerCallback):
    def __init__(self, directory, dump_after=10):
        self.directory = directory
        self.dump_after = dump_after

    def on_train_begin(self, args, state, control, **kwargs):
        oom_hook.install(self.directory)

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == self.dump_after:
            os.makedirs(self.directory, exist_ok=True)
            name = f"step{state.global_step}_rank{args.process_index}.pickle"
            torch.cuda.memory._dump_snapshot(os.path.join(self.directory, name))

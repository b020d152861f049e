# Lightning. oom_hook.py is what `oomscope howto hook` prints.
#
#   trainer = Trainer(..., callbacks=[MemorySnapshot("snapshots")])
#
# Cost: see oom_hook.py.
from lightning.pytorch.callbacks import Callback

import oom_hook


class MemorySnapshot(Callback):
    def __init__(self, directory):
        self.directory = directory

    def setup(self, trainer, pl_module, stage):
        # setup() runs in every rank, when its device is set and before the model is on it.
        oom_hook.install(self.directory)

# Record from the start, write a snapshot at the end and when it fails. PyTorch 2.0, where the arguments have other
# names and nothing but pickle writes a snapshot. From 2.1 on: oomscope howto plain.
# In PyTorch 1.13 the first argument is the only one, and what is recorded are the stacks of live blocks, no history.
#
# Cost: some microseconds an allocation, and a few KB of host memory an entry. The default of trace_alloc_max_entries
# is 1, which is no history.
import pickle

import torch


def dump(path):
    with open(path, "wb") as file:
        pickle.dump(torch.cuda.memory._snapshot(), file)


torch.cuda.memory._record_memory_history(True, trace_alloc_max_entries=100_000, trace_alloc_record_context=True)
try:
    main()  # your program
except torch.cuda.OutOfMemoryError:
    # By now the exception has freed most tensors, but the trace has the failure.
    dump("after_oom.pickle")
    raise
dump("end.pickle")

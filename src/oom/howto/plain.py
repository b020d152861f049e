# Record from the start, dump at the end and when it fails. PyTorch 2.1 or later.
#
# Cost: some microseconds an allocation, and a few KB of host memory an entry: 100000 entries are some hundred MB at
# most. Without max_entries nothing bounds them. stacks="python" leaves out C++ frames, which are slow to resolve.
import torch

torch.cuda.memory._record_memory_history(max_entries=100_000, stacks="python")
try:
    main()  # your program
except torch.cuda.OutOfMemoryError:
    # By now the exception has freed most tensors: the hook below sees the moment itself.
    torch.cuda.memory._dump_snapshot("after_oom.pickle")
    raise
torch.cuda.memory._dump_snapshot("end.pickle")

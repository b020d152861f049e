# vLLM, SGLang and whatever starts workers of its own. Save it as sitecustomize.py, with oom_hook.py (what
# `oomscope howto hook` prints), in a directory of their own, and start
#
#   OOMSCOPE_DIR=/tmp/snapshots PYTHONPATH=/that/directory vllm serve ...
#
# Every Python process that inherits this environment then records as soon as it uses CUDA, and none uses it for that.
#
# Cost: see oom_hook.py. CUDA graphs hide what is replayed; vLLM's --enforce-eager shows every allocation, slower.
import os

if os.environ.get("OOMSCOPE_DIR"):
    import torch

    def _install():
        import oom_hook

        oom_hook.install(os.environ["OOMSCOPE_DIR"])

    # Run when this process initialises CUDA, at once if it has.
    torch.cuda._lazy_call(_install)

"""Starts a script twice as torchrun does: with RANK and others in an environment of its own making."""

import os
import subprocess
import sys
import tempfile

with tempfile.TemporaryDirectory() as folder:
    workers = []
    for rank in range(2):
        environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "STORE": f"{folder}/store"}
        workers.append(subprocess.Popen([sys.executable, *sys.argv[1:]], env=environment))
    sys.exit(max(worker.wait() for worker in workers))

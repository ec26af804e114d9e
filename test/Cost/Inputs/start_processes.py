"""start_processes.py N COMMAND...: starts a command as N processes of a job on this host, and fails if one of them does."""

import os
import socket
import subprocess
import sys

count, command = int(sys.argv[1]), sys.argv[2:]
# It stays bound, so that nobody else is given the port before process 0 listens on it.
holder = socket.socket()
holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
holder.bind(("127.0.0.1", 0))
port = holder.getsockname()[1]
job = {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
processes = [
    subprocess.Popen(command, env=dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), **job))
    for rank in range(count)
]
sys.exit(max(abs(process.wait()) for process in processes))

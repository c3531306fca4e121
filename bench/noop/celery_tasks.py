"""Queues tasks that do nothing, has a worker of Celery work them off, with late acks and results in Redis, and prints tasks/s,
seconds of processor time a task and the memory of all its processes, in bytes."""

import os
import subprocess
import sys
import time

import celery
import redis

port = os.environ["REDIS_PORT"]
app = celery.Celery("celery_tasks", broker=f"redis://127.0.0.1:{port}/0", backend=f"redis://127.0.0.1:{port}/1")
app.conf.update(task_acks_late=True, worker_prefetch_multiplier=1, broker_connection_retry_on_startup=True)


@app.task
def noop():
    """Does nothing."""


def processes(root):
    """The ids of a process and those that it has started."""
    ids = [root]
    with open(f"/proc/{root}/task/{root}/children", encoding="ascii") as children:
        for child in children.read().split():
            ids += processes(int(child))
    return ids


def usage(root):
    """Seconds of processor time and resident bytes of a process and those that it has started."""
    seconds = memory = 0
    for pid in processes(root):
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            fields = stat.read().rpartition(")")[2].split()
        seconds += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        memory += int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
    return seconds, memory


def main():
    n = int(os.environ["BENCH_TASKS"])
    results = redis.Redis(port=int(port), db=1)
    for _ in range(n):
        noop.delay()
    worker = subprocess.Popen(
        [sys.executable, "-m", "celery", "-A", "celery_tasks", "worker", "-c", os.environ["BENCH_SLOTS"], "-l", "ERROR", "--without-gossip", "--without-mingle"],
        stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    while results.dbsize() == 0:
        time.sleep(0.01)
    began, first, used = time.monotonic(), results.dbsize(), usage(worker.pid)[0]
    while results.dbsize() < n:
        time.sleep(0.01)
    took = time.monotonic() - began
    seconds, memory = usage(worker.pid)
    print((n - first) / took, (seconds - used) / (n - first), memory)
    worker.terminate()
    worker.wait()


if __name__ == "__main__":
    main()

"""What Celery expects of the Pub/Sub server at PUBSUB_EMULATOR_HOST as its broker.

Runs tasks, one of which is retried, through the gcpubsub transport, and exits 0
when each has run.
"""

import threading

from celery import Celery
from celery.contrib.testing.worker import start_worker

SOON = 60  # seconds until a task that should run has failed
COUNT = 20

app = Celery("tasks", broker="gcpubsub://projects/test")
app.conf.task_default_queue = "celery"
ran, changed = [], threading.Condition()


@app.task(bind=True, max_retries=3)
def run(self, n):
    with changed:
        ran.append(n)
        changed.notify_all()
    if n == 0 and self.request.retries < 2:
        raise self.retry(countdown=0)


if __name__ == "__main__":
    for n in range(COUNT):
        run.delay(n)
    want = sorted([0, 0, *range(COUNT)])
    with start_worker(app, pool="solo", perform_ping_check=False):
        with changed:
            changed.wait_for(lambda: len(ran) >= len(want), SOON)
    if sorted(ran) != want:
        raise AssertionError(f"ran {sorted(ran)}, want {want}")

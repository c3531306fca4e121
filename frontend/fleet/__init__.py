"""The frontend's side of the fleet's contract, without a page.

What a frontend may rely on is public: where inputs and results lie in the
storage, the message in the queue (pubsub/SPEC.md), the key job:ID in Redis
(status/SPEC.md) and the result files (processor/SPEC.md). Nothing here touches
anything else, so the workers may change behind it.
"""

import os

# Without credentials Google's library looks for a metadata server, by default
# three times for three seconds. It reads these when it is imported, so they are
# here, where everything of this package begins.
os.environ.setdefault("GCE_METADATA_TIMEOUT", "2")
os.environ.setdefault("GCE_METADATA_DETECT_RETRIES", "1")

"""The frontend's side of the fleet's contract, without a page.

What a frontend may rely on is public: where inputs and results lie in the
storage, the message in the queue (worker/SPEC.md), the key job:ID in Redis
(status/SPEC.md) and the result files (processor/SPEC.md). Nothing here touches
anything else, so the workers may change behind it.
"""

"""What Google's Python client expects of the Pub/Sub server at PUBSUB_EMULATOR_HOST.

    clients.py SCENARIO

exits 0 when the scenario holds, and says on stderr what did not. It waits for
conditions, each with a deadline. A scenario that needs the server to go away
for a while writes the line "restart" and reads a line when it is back.
"""

import collections
import datetime
import os
import sys
import threading
import time

import grpc
from google import pubsub_v1 as low_level
from google.api_core import exceptions
from google.cloud import pubsub_v1
from google.cloud.pubsub_v1 import types
from google.cloud.pubsub_v1.subscriber import exceptions as sub_exceptions
from google.protobuf import duration_pb2, field_mask_pb2, timestamp_pb2
from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcTransport

SOON = 30  # seconds until a condition that should come true has failed

publisher = pubsub_v1.PublisherClient()
subscriber = pubsub_v1.SubscriberClient()
scenarios = {}


def scenario(f):
    scenarios[f.__name__] = f
    return f


def name(collection, suffix=""):
    return f"projects/test/{collection}/py-{sys.argv[1]}{suffix}"


def topic(suffix="", **fields):
    return publisher.create_topic(request={"name": name("topics", suffix), **fields}).name


def subscription(to, suffix="", **fields):
    request = {"name": name("subscriptions", suffix), "topic": to, "ack_deadline_seconds": 10, **fields}
    return subscriber.create_subscription(request=request).name


def publish(to, *data, **attributes):
    futures = [publisher.publish(to, d.encode(), **attributes) for d in data]
    return [f.result(timeout=SOON) for f in futures]


def pull(sub, count, seconds=SOON):
    """Returns count messages, or those that came within seconds."""
    got, end = [], time.monotonic() + seconds
    while len(got) < count and time.monotonic() < end:
        try:
            response = subscriber.pull(
                request={"subscription": sub, "max_messages": count - len(got)},
                timeout=max(end - time.monotonic(), 0.1),
                retry=None,
            )
        except exceptions.DeadlineExceeded:
            break
        got += response.received_messages
    return got


def pull_now(sub):
    """Returns what can be had at once."""
    return list(
        subscriber.pull(
            request={"subscription": sub, "max_messages": 1000, "return_immediately": True}, timeout=SOON
        ).received_messages
    )


def ack(sub, *received):
    subscriber.acknowledge(request={"subscription": sub, "ack_ids": [r.ack_id for r in received]})


def modack(sub, seconds, *received):
    subscriber.modify_ack_deadline(
        request={"subscription": sub, "ack_ids": [r.ack_id for r in received], "ack_deadline_seconds": seconds}
    )


def texts(received):
    return sorted(r.message.data.decode() for r in received)


def equal(got, want, what):
    if got != want:
        raise AssertionError(f"{what}: got {got!r}, want {want!r}")


def raises(error, call, what):
    try:
        got = call()
    except error as e:
        return e
    raise AssertionError(f"{what}: got {got!r}, want {error.__name__}")


class Stream:
    """A streaming pull and what it received. act settles each message."""

    def __init__(self, sub, act=lambda m: m.ack(), client=subscriber, **flow):
        self.messages, self.changed, self.act = [], threading.Condition(), act
        self.future = client.subscribe(sub, self.take, flow_control=types.FlowControl(**flow))

    def take(self, message):
        with self.changed:
            self.messages.append(message)
            self.changed.notify_all()
        self.act(message)

    def wait(self, count, seconds=SOON):
        """Waits for count messages and reports whether they came."""
        with self.changed:
            return self.changed.wait_for(lambda: len(self.messages) >= count, seconds)

    def need(self, count):
        if not self.wait(count):
            raise AssertionError(f"{len(self.messages)} messages in {SOON} s, want {count}: {self.future!r}")
        return self.messages[:count]

    def close(self):
        self.future.cancel()
        self.future.result(timeout=SOON)


@scenario
def publish_and_pull():
    t = topic()
    s = subscription(t)
    ids = publish(t, "grün 緑 🟢", größe="naïve ☃", empty="")
    ids += [publisher.publish(t, b"", only="attributes").result(timeout=SOON)]
    ids += [publisher.publish(t, bytes(range(256))).result(timeout=SOON)]
    got = {r.message.message_id: r for r in pull(s, 3)}
    equal(sorted(got), sorted(ids), "message ids")
    messages = [got[i].message for i in ids]
    equal(messages[0].data.decode(), "grün 緑 🟢", "data")
    equal(dict(messages[0].attributes), {"größe": "naïve ☃", "empty": ""}, "attributes")
    equal((messages[1].data, dict(messages[1].attributes)), (b"", {"only": "attributes"}), "message without data")
    equal(messages[2].data, bytes(range(256)), "bytes")
    equal(messages[0].ordering_key, "", "ordering key")
    age = datetime.datetime.now(datetime.timezone.utc) - messages[0].publish_time
    equal(datetime.timedelta(0) <= age < datetime.timedelta(minutes=1), True, f"published {age} ago, plausible")
    ack(s, *got.values())
    equal(pull_now(s), [], "messages after the ack")


@scenario
def stream_with_room_for_one():
    t = topic()
    s = subscription(t, ack_deadline_seconds=60)
    publish(t, *[str(i) for i in range(20)])
    stream = Stream(s, act=lambda m: None, max_messages=1)
    held = stream.need(1)[0]
    others = pull(s, 19)  # what the stream was not sent, because it has no room
    equal(len(others), 19, "messages left to others")
    ack(s, *others)
    publish(t, "next")
    equal(len(stream.messages), 1, "messages on the stream while one is held")
    held.ack()
    equal(stream.need(2)[1].data, b"next", "message after the ack")
    stream.messages[1].ack()
    stream.close()


@scenario
def stream_many():
    t = topic()
    s = subscription(t)
    want = [str(i) for i in range(2000)]
    publish(t, *want)
    stream = Stream(s, max_messages=100)
    stream.need(len(want))
    equal(sorted(m.data.decode() for m in stream.messages), sorted(want), "messages")
    stream.close()


@scenario
def extend():
    t = topic()
    s = subscription(t)
    publish(t, "kept", "lost")
    first = {r.message.data: r for r in pull(s, 2)}
    start = time.monotonic()
    modack(s, 60, first[b"kept"])
    again = pull(s, 1, seconds=20)
    took = time.monotonic() - start
    equal(texts(again + pull_now(s)), ["lost"], "messages after a lease of 10 s, one of them extended")
    equal(took > 9, True, f"the lease of 10 s ended after {took:.1f} s")
    modack(s, 0, first[b"kept"])
    back = pull(s, 1, seconds=5)
    equal(texts(back), ["kept"], "after the lease was given up")
    equal(back[0].ack_id != first[b"kept"].ack_id, True, "the new delivery has its own ack id")


@scenario
def client_extends():
    t = topic()
    s = subscription(t)
    publish(t, "slow")
    stream = Stream(s, act=lambda m: None)
    stream.need(1)
    equal(stream.wait(2, seconds=15), False, "delivered twice while its handler ran for longer than a lease")
    equal(stream.messages[0].ack_with_response().result(timeout=SOON), sub_exceptions.AcknowledgeStatus.SUCCESS, "ack")
    stream.close()
    equal(pull_now(s), [], "messages after the ack")


@scenario
def nack():
    t = topic()
    policy = {"dead_letter_topic": topic("-dead"), "max_delivery_attempts": 5}
    # The lease is far longer than the test: what comes back comes from the nack.
    s = subscription(t, dead_letter_policy=policy, ack_deadline_seconds=600)
    publish(t, "x")
    stream = Stream(s, act=lambda m: m.ack() if m.delivery_attempt == 3 else m.nack())
    stream.need(3)
    equal([m.delivery_attempt for m in stream.messages], [1, 2, 3], "delivery attempts")
    stream.close()


@scenario
def order():
    t = topic()
    s = subscription(t, enable_message_ordering=True)
    ordered = pubsub_v1.PublisherClient(publisher_options=types.PublisherOptions(enable_message_ordering=True))
    count, keys, nacked = 30, ["a", "b", "c"], []
    futures = [
        ordered.publish(t, str(i).encode(), ordering_key=key) for i in range(count) for key in keys
    ]
    for f in futures:
        f.result(timeout=SOON)
    seen = collections.defaultdict(list)
    done = threading.Condition()

    def act(m):
        i = int(m.data)
        with done:
            seen[m.ordering_key].append(i)
            if m.ordering_key == "b" and i == 7 and not nacked:
                nacked.append(m)
                m.nack()
            else:
                m.ack()
            done.notify_all()

    stream = Stream(s, act=act)
    with done:
        done.wait_for(lambda: seen["b"].count(7) > 1 and all(seen[k][-1:] == [count - 1] for k in keys), SOON)
    stream.close()
    everything = list(range(count))
    equal(seen["a"], everything, "order of key a")
    equal(seen["c"], everything, "order of key c")
    at = len(seen["b"]) - 1 - seen["b"][::-1].index(7)
    equal(seen["b"][:8], everything[:8], "order of key b before the nack")
    equal(seen["b"][at:], everything[7:], f"order of key b after the nack, of {seen['b']}")


@scenario
def order_at_once():
    t = topic()
    s = subscription(t, enable_message_ordering=True, ack_deadline_seconds=600)
    numbers = [str(i) for i in range(50)]
    messages = [{"data": n.encode(), "ordering_key": "a"} for n in numbers]
    low_level.PublisherClient().publish(request={"topic": t, "messages": messages}, timeout=SOON)

    def pull_all(first):
        request = {"subscription": s, "max_messages": 100}
        got = subscriber.pull(request=request, timeout=SOON).received_messages
        equal([r.message.data.decode() for r in got], numbers[first:], "one answer")
        equal(pull_now(s), [], "messages for another while some of the key are out")
        return got

    got = pull_all(0)
    ack(s, *got[:5], *got[20:])  # the later ones do not count: those before come back
    modack(s, 0, got[7])
    equal(pull_now(s), [], "messages for another while earlier ones of the key are out")
    modack(s, 0, got[5])
    ack(s, *reversed(pull_all(5)))
    equal(pull_now(s), [], "messages after the acks")


@scenario
def filter():
    t = topic()
    s = subscription(t, filter='attributes.kind = "pdf" AND NOT hasPrefix(attributes.lang, "de")')
    publish(t, "yes", kind="pdf", lang="fr")
    publish(t, "no language", kind="pdf")
    publish(t, "german", kind="pdf", lang="de-CH")
    publish(t, "other kind", kind="mock", lang="fr")
    publish(t, "no attributes")
    got = pull(s, 2)
    equal(texts(got + pull_now(s)), ["no language", "yes"], "messages that pass")
    e = raises(
        exceptions.InvalidArgument,
        lambda: subscription(t, suffix="-bad", filter="attributes.kind = pdf OR"),
        "subscription with a filter that does not parse",
    )
    equal("filter" in str(e).lower(), True, f"{e} names the filter")


@scenario
def dead_letter():
    t, dead = topic(), topic("-dead")
    deads = subscription(dead, "-dead")
    s = subscription(t, dead_letter_policy={"dead_letter_topic": dead, "max_delivery_attempts": 5})
    message_id = publish(t, "x", k="v")[0]
    stream = Stream(s, act=lambda m: m.nack())
    got = pull(deads, 1)
    equal(len(got), 1, "messages in the dead letter topic")
    equal([m.delivery_attempt for m in stream.messages], [1, 2, 3, 4, 5], "delivery attempts")
    equal(stream.messages[0].message_id, message_id, "message id")
    stream.close()
    attributes = dict(got[0].message.attributes)
    published = attributes.pop("CloudPubSubDeadLetterSourceTopicPublishTime", None)
    equal(published is not None, True, "the dead letter tells when it was published")
    equal(
        attributes,
        {
            "k": "v",
            "CloudPubSubDeadLetterSourceDeliveryCount": "5",
            "CloudPubSubDeadLetterSourceSubscription": s.rsplit("/", 1)[1],
            "CloudPubSubDeadLetterSourceSubscriptionProject": "test",
        },
        "attributes of the dead letter",
    )
    equal(got[0].message.data, b"x", "data of the dead letter")
    equal(pull_now(s), [], "messages left in the source")


@scenario
def seek():
    t = topic()
    s = subscription(t, retain_acked_messages=True)
    publish(t, "a")
    a = pull(s, 1)[0]
    between = timestamp_pb2.Timestamp()
    between.FromNanoseconds(a.message.publish_time.timestamp_pb().ToNanoseconds() + 1_000_000)
    while time.time_ns() < between.ToNanoseconds() + 1_000_000:
        pass  # two milliseconds, for the next message to be younger
    publish(t, "b")
    ack(s, a, *pull(s, 1))
    subscriber.seek(request={"subscription": s, "time": between})
    b = pull(s, 1)
    equal(texts(b + pull_now(s)), ["b"], "after a seek between the two")
    old = timestamp_pb2.Timestamp(seconds=int(time.time()) - 3600)
    subscriber.seek(request={"subscription": s, "time": old})
    both = pull(s, 2)
    equal(texts(both), ["a", "b"], "after a seek back")
    subscriber.seek(request={"subscription": s, "time": timestamp_pb2.Timestamp(seconds=int(time.time()) + 3600)})
    modack(s, 0, *both)
    equal(pull_now(s), [], "after a seek to the future")


@scenario
def snapshot():
    t = topic()
    s = subscription(t)
    publish(t, "acked", "open")
    first = {r.message.data: r for r in pull(s, 2)}
    ack(s, first[b"acked"])
    snap = name("snapshots")
    made = subscriber.create_snapshot(request={"name": snap, "subscription": s, "labels": {"a": "b"}})
    equal((made.name, made.topic), (snap, t), "snapshot")
    ack(s, first[b"open"])
    publish(t, "later")
    ack(s, *pull(s, 1))
    subscriber.seek(request={"subscription": s, "snapshot": snap})
    equal(texts(pull(s, 2)), ["later", "open"], "after the seek")
    mask = field_mask_pb2.FieldMask(paths=["labels"])
    subscriber.update_snapshot(request={"snapshot": {"name": snap, "labels": {"a": "c"}}, "update_mask": mask})
    equal(dict(subscriber.get_snapshot(request={"snapshot": snap}).labels), {"a": "c"}, "labels")
    equal([x.name for x in subscriber.list_snapshots(request={"project": "projects/test"}) if x.name == snap], [snap], "list")
    equal(list(publisher.list_topic_snapshots(request={"topic": t})), [snap], "snapshots of the topic")
    subscriber.delete_snapshot(request={"snapshot": snap})
    raises(exceptions.NotFound, lambda: subscriber.get_snapshot(request={"snapshot": snap}), "deleted snapshot")


@scenario
def exactly_once():
    t = topic()
    s = subscription(t, enable_exactly_once_delivery=True, ack_deadline_seconds=60)
    publish(t, "x")
    stream = Stream(s, act=lambda m: None)
    first = stream.need(1)[0]
    equal(pull_now(s), [], "messages for others while it is leased")
    # Somebody else gives the lease up: the stream gets the message again.
    subscriber.modify_ack_deadline(request={"subscription": s, "ack_ids": [first.ack_id], "ack_deadline_seconds": 0})
    second = stream.need(2)[1]
    equal(second.message_id, first.message_id, "redelivered message")
    e = raises(
        sub_exceptions.AcknowledgeError,
        lambda: first.ack_with_response().result(timeout=SOON),
        "ack with a stale ack id",
    )
    equal(e.error_code, sub_exceptions.AcknowledgeStatus.INVALID_ACK_ID, "error code of a stale ack")
    equal(second.ack_with_response().result(timeout=SOON), sub_exceptions.AcknowledgeStatus.SUCCESS, "ack")
    stream.close()
    e = raises(
        exceptions.FailedPrecondition,
        lambda: subscriber.acknowledge(request={"subscription": s, "ack_ids": [first.ack_id]}, retry=None),
        "unary ack with a stale ack id",
    )
    equal(
        dict(e.metadata), {first.ack_id: "PERMANENT_FAILURE_INVALID_ACK_ID"}, "metadata of the error"
    )
    equal(pull_now(s), [], "messages after the ack")


@scenario
def update_with_mask():
    t = topic(labels={"a": "b"})
    s = subscription(t, labels={"a": "b"})

    def update(paths, **fields):
        mask = field_mask_pb2.FieldMask(paths=paths)
        return subscriber.update_subscription(request={"subscription": {"name": s, **fields}, "update_mask": mask})

    got = update(["ack_deadline_seconds"], ack_deadline_seconds=30, labels={"c": "d"})
    equal((got.ack_deadline_seconds, dict(got.labels)), (30, {"a": "b"}), "updated subscription")
    got = update(["labels", "message_retention_duration"], message_retention_duration=duration_pb2.Duration(seconds=600))
    equal((got.message_retention_duration.seconds, dict(got.labels)), (600, {}), "updated subscription")
    equal(subscriber.get_subscription(request={"subscription": s}), got, "subscription read back")
    raises(exceptions.InvalidArgument, lambda: update([]), "empty mask")
    raises(exceptions.InvalidArgument, lambda: update(["colour"]), "mask with an unknown field")
    raises(exceptions.InvalidArgument, lambda: update(["topic"], topic=t), "mask with a field that is fixed")
    got = publisher.update_topic(
        request={"topic": {"name": t, "labels": {"x": "y"}}, "update_mask": field_mask_pb2.FieldMask(paths=["labels"])}
    )
    equal(dict(got.labels), {"x": "y"}, "updated topic")


@scenario
def lists():
    project = "projects/py-lists"
    want = [f"{project}/topics/topic-{i}" for i in range(7)]
    for t in want:
        publisher.create_topic(request={"name": t})
    subs = [f"{project}/subscriptions/sub-{i}" for i in range(7)]
    for s in subs:
        subscriber.create_subscription(request={"name": s, "topic": want[0]})
    pages = list(publisher.list_topics(request={"project": project, "page_size": 3}).pages)
    equal([len(p.topics) for p in pages], [3, 3, 1], "pages of topics")
    equal(sorted(t.name for p in pages for t in p.topics), want, "topics")
    pager = subscriber.list_subscriptions(request={"project": project, "page_size": 2})
    equal(sorted(s.name for s in pager), subs, "subscriptions")
    pager = publisher.list_topic_subscriptions(request={"topic": want[0], "page_size": 4})
    equal(sorted(pager), subs, "subscriptions of the topic")
    equal(list(publisher.list_topic_subscriptions(request={"topic": want[1]})), [], "subscriptions of another topic")
    equal(list(publisher.list_topics(request={"project": "projects/py-none"})), [], "topics of an empty project")


@scenario
def detach():
    t = topic()
    s = subscription(t)
    publish(t, "x")
    publisher.detach_subscription(request={"subscription": s})
    e = raises(
        exceptions.FailedPrecondition,
        lambda: subscriber.pull(request={"subscription": s, "max_messages": 1}, timeout=SOON),
        "pull from a detached subscription",
    )
    equal("detached" in str(e), True, f"{e} says why")
    equal(subscriber.get_subscription(request={"subscription": s}).detached, True, "detached")
    equal(list(publisher.list_topic_subscriptions(request={"topic": t})), [], "subscriptions of the topic")


@scenario
def delete_while_streaming():
    t = topic()
    s = subscription(t)
    publish(t, "x")
    stream = Stream(s)
    stream.need(1)
    subscriber.delete_subscription(request={"subscription": s})
    raises(exceptions.NotFound, lambda: stream.future.result(timeout=SOON), "stream of a deleted subscription")
    publisher.delete_topic(request={"topic": t})
    raises(exceptions.NotFound, lambda: publish(t, "x"), "publish to a deleted topic")


@scenario
def restart():
    t = topic()
    s = subscription(t)
    publish(t, "before")
    stream = Stream(s)
    stream.need(1)
    print("restart", flush=True)
    sys.stdin.readline()
    publish(t, "after")
    equal(stream.need(2)[1].data, b"after", "message after the restart")
    stream.close()


@scenario
def large():
    t = topic()
    s = subscription(t)
    data = bytes(range(256)) * (9_900_000 // 256)
    publisher.publish(t, data).result(timeout=SOON)
    # With PUBSUB_EMULATOR_HOST the client opens a channel that takes no answer
    # above gRPC's 4 MiB, whatever the server is. This is the channel it opens
    # to Google.
    channel = grpc.insecure_channel(
        os.environ["PUBSUB_EMULATOR_HOST"], options=[("grpc.max_receive_message_length", -1)]
    )
    client = pubsub_v1.SubscriberClient(transport=SubscriberGrpcTransport(channel=channel))
    got = client.pull(request={"subscription": s, "max_messages": 1}, timeout=SOON).received_messages
    equal(got[0].message.data == data, True, "data pulled is what was published")
    modack(s, 0, *got)
    stream = Stream(s, client=client)
    equal(stream.need(1)[0].data == data, True, "data streamed is what was published")
    stream.close()


@scenario
def batch():
    t = topic()
    s = subscription(t)
    want = [f"message {i}" for i in range(1000)]
    # The high-level client sends a full batch only when one more message comes.
    request = {"topic": t, "messages": [{"data": w.encode()} for w in want]}
    ids = low_level.PublisherClient().publish(request=request, timeout=SOON).message_ids
    equal(len(set(ids)), 1000, "message ids")
    got = pull(s, 1000)
    equal(texts(got), sorted(want), "messages")
    ack(s, *got)
    equal(pull_now(s), [], "messages after the ack")


if __name__ == "__main__":
    scenarios[sys.argv[1]]()

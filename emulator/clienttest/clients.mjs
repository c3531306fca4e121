// What Google's Node client expects of the Pub/Sub server at PUBSUB_EMULATOR_HOST.
//
//     node clients.mjs SCENARIO
//
// exits 0 when the scenario holds, and says on stderr what did not. It waits for
// conditions, each with a deadline. CLIENTTEST_NODE_MODULES names the directory
// of the client. A scenario that needs the server to go away for a while writes
// the line "restart" and reads a line when it is back.

import assert from 'node:assert/strict';
import {once} from 'node:events';
import {createRequire} from 'node:module';

const require = createRequire(`${process.env.CLIENTTEST_NODE_MODULES}/`);
const {PubSub, v1} = require('@google-cloud/pubsub');
const {grpc} = require('google-gax');

const SOON = 30_000; // milliseconds until a condition that should come true has failed
const {INVALID_ARGUMENT, NOT_FOUND, FAILED_PRECONDITION, DEADLINE_EXCEEDED} = grpc.status;

const scenario = process.argv[2];
const [host, port] = process.env.PUBSUB_EMULATOR_HOST.split(':');
const pubsub = new PubSub({projectId: 'test'});
const low = {servicePath: host, port: Number(port), sslCreds: grpc.credentials.createInsecure()};
const subscriber = new v1.SubscriberClient(low);
const publisher = new v1.PublisherClient(low);

const id = (suffix = '') => `node-${scenario}${suffix}`;

async function topic(suffix = '', fields = {}) {
  const [t] = await pubsub.createTopic({name: id(suffix), ...fields});
  return t;
}

async function subscription(t, fields = {}, suffix = '') {
  const [s] = await t.createSubscription(id(suffix), {ackDeadlineSeconds: 10, ...fields});
  return s;
}

function publish(t, ...texts) {
  return Promise.all(texts.map(text => t.publishMessage({data: Buffer.from(text)})));
}

// pull returns count messages, or those that came within the time.
async function pull(s, count, time = SOON) {
  const got = [];
  const end = Date.now() + time;
  while (got.length < count && Date.now() < end) {
    try {
      const [response] = await subscriber.pull(
        {subscription: s.name, maxMessages: count - got.length},
        {timeout: Math.max(end - Date.now(), 100), retry: null},
      );
      got.push(...response.receivedMessages);
    } catch (e) {
      if (e.code !== DEADLINE_EXCEEDED) throw e;
    }
  }
  return got;
}

// pullNow returns what can be had at once.
async function pullNow(s) {
  const [response] = await subscriber.pull({subscription: s.name, maxMessages: 1000, returnImmediately: true});
  return response.receivedMessages;
}

const ack = (s, ...received) => subscriber.acknowledge({subscription: s.name, ackIds: received.map(r => r.ackId)});
const modack = (s, seconds, ...received) =>
  subscriber.modifyAckDeadline({
    subscription: s.name,
    ackIds: received.map(r => r.ackId),
    ackDeadlineSeconds: seconds,
  });
const texts = received => received.map(r => r.message.data.toString()).sort();

// A Stream is a streaming pull and what it received. act settles each message.
class Stream {
  constructor(s, act = m => m.ack(), options = {}) {
    this.messages = [];
    this.wake = () => {};
    this.error = null;
    this.subscription = pubsub.subscription(s.name, options);
    this.subscription.on('error', e => {
      this.error = e;
      this.wake();
    });
    this.subscription.on('message', m => {
      this.messages.push(m);
      act(m);
      this.wake();
    });
  }

  // until waits for a condition and reports whether it came true.
  async until(ok, time = SOON) {
    const end = Date.now() + time;
    while (!ok() && Date.now() < end) {
      await new Promise(resolve => {
        const timer = setTimeout(resolve, end - Date.now());
        this.wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    return ok();
  }

  async need(count) {
    if (!(await this.until(() => this.messages.length >= count || this.error)) || this.error) {
      throw this.error ?? new Error(`${this.messages.length} messages in ${SOON} ms, want ${count}`);
    }
    return this.messages.slice(0, count);
  }

  close() {
    return this.subscription.close();
  }
}

const scenarios = {
  async publish_and_pull() {
    const t = await topic();
    const s = await subscription(t);
    const bytes = Buffer.from(Array.from({length: 256}, (_, i) => i));
    const ids = await Promise.all([
      t.publishMessage({data: Buffer.from('grün 緑 🟢'), attributes: {größe: 'naïve ☃', empty: ''}}),
      t.publishMessage({attributes: {only: 'attributes'}}),
      t.publishMessage({data: bytes}),
    ]);
    const received = await pull(s, 3);
    const got = Object.fromEntries(received.map(r => [r.message.messageId, r.message]));
    assert.deepEqual(Object.keys(got).sort(), [...ids].sort());
    const messages = ids.map(i => got[i]);
    assert.equal(messages[0].data.toString(), 'grün 緑 🟢');
    assert.deepEqual({...messages[0].attributes}, {größe: 'naïve ☃', empty: ''});
    assert.deepEqual([messages[1].data.length, {...messages[1].attributes}], [0, {only: 'attributes'}]);
    assert.deepEqual(Buffer.from(messages[2].data), bytes);
    const age = Date.now() / 1000 - Number(messages[0].publishTime.seconds);
    assert(age >= 0 && age < 60, `published ${age} s ago`);
    await ack(s, ...received);
    assert.deepEqual(await pullNow(s), []);
  },

  async stream_with_room_for_one() {
    const t = await topic();
    const s = await subscription(t, {ackDeadlineSeconds: 60});
    await publish(t, ...Array.from({length: 20}, (_, i) => String(i)));
    const stream = new Stream(s, () => {}, {flowControl: {maxMessages: 1}, streamingOptions: {maxStreams: 1}});
    const [held] = await stream.need(1);
    const others = await pull(s, 19); // what the stream was not sent, because it has no room
    assert.equal(others.length, 19, 'messages left to others');
    await ack(s, ...others);
    await publish(t, 'next');
    assert.equal(stream.messages.length, 1, 'messages on the stream while one is held');
    held.ack();
    const [, next] = await stream.need(2);
    assert.equal(next.data.toString(), 'next');
    next.ack();
    await stream.close();
  },

  async stream_many() { // on the five streams the client opens
    const t = await topic();
    const s = await subscription(t);
    const want = Array.from({length: 2000}, (_, i) => String(i));
    await publish(t, ...want);
    const stream = new Stream(s, m => m.ack(), {flowControl: {maxMessages: 100}});
    await stream.need(want.length);
    assert.deepEqual(stream.messages.map(m => m.data.toString()).sort(), want.sort());
    await stream.close();
  },

  async extend() {
    const t = await topic();
    const s = await subscription(t);
    await publish(t, 'kept', 'lost');
    const first = Object.fromEntries((await pull(s, 2)).map(r => [r.message.data.toString(), r]));
    const start = Date.now();
    await modack(s, 60, first.kept);
    const again = await pull(s, 1, 20_000);
    const took = Date.now() - start;
    assert.deepEqual(texts([...again, ...(await pullNow(s))]), ['lost'], 'after a lease of 10 s, one of them extended');
    assert(took > 9_000, `the lease of 10 s ended after ${took} ms`);
    await modack(s, 0, first.kept);
    const back = await pull(s, 1, 5_000);
    assert.deepEqual(texts(back), ['kept'], 'after the lease was given up');
    assert.notEqual(back[0].ackId, first.kept.ackId, 'the new delivery has its own ack id');
  },

  async client_extends() {
    const t = await topic();
    const s = await subscription(t);
    await publish(t, 'slow');
    const stream = new Stream(s, () => {});
    const [m] = await stream.need(1);
    assert(!(await stream.until(() => stream.messages.length > 1, 15_000)), 'delivered twice while its handler ran');
    assert.equal(await m.ackWithResponse(), 'SUCCESS');
    await stream.close();
    assert.deepEqual(await pullNow(s), []);
  },

  async nack() {
    const t = await topic();
    const dead = await topic('-dead');
    const deadLetterPolicy = {deadLetterTopic: dead.name, maxDeliveryAttempts: 5};
    // The lease is far longer than the test: what comes back comes from the nack.
    const s = await subscription(t, {deadLetterPolicy, ackDeadlineSeconds: 600});
    await publish(t, 'x');
    const stream = new Stream(s, m => (m.deliveryAttempt === 3 ? m.ack() : m.nack()));
    await stream.need(3);
    assert.deepEqual(stream.messages.map(m => m.deliveryAttempt), [1, 2, 3]);
    await stream.close();
  },

  async order() {
    const t = await topic();
    const s = await subscription(t, {enableMessageOrdering: true});
    const ordered = pubsub.topic(t.name, {messageOrdering: true});
    const everything = Array.from({length: 30}, (_, i) => i);
    const sent = [];
    for (const i of everything) {
      for (const orderingKey of ['a', 'b', 'c']) {
        sent.push(ordered.publishMessage({data: Buffer.from(String(i)), orderingKey}));
      }
    }
    await Promise.all(sent);
    const seen = {a: [], b: [], c: []};
    let nacked = false;
    const stream = new Stream(s, m => {
      const i = Number(m.data.toString());
      seen[m.orderingKey].push(i);
      if (m.orderingKey === 'b' && i === 7 && !nacked) {
        nacked = true;
        m.nack();
      } else {
        m.ack();
      }
    });
    const last = everything.at(-1);
    const done = () => seen.b.lastIndexOf(7) > seen.b.indexOf(7) && Object.values(seen).every(l => l.at(-1) === last);
    await stream.until(done);
    await stream.close();
    assert.deepEqual(seen.a, everything, 'order of key a');
    assert.deepEqual(seen.c, everything, 'order of key c');
    assert.deepEqual(seen.b.slice(0, 8), everything.slice(0, 8), 'order of key b before the nack');
    const after = seen.b.slice(seen.b.lastIndexOf(7));
    assert.deepEqual(after, everything.slice(7), `order of key b after the nack, of ${seen.b}`);
  },

  async order_at_once() {
    const t = await topic();
    const s = await subscription(t, {enableMessageOrdering: true, ackDeadlineSeconds: 600});
    const everything = Array.from({length: 200}, (_, i) => String(i));
    const messages = everything.map(n => ({data: Buffer.from(n), orderingKey: 'a'}));
    await publisher.publish({topic: t.name, messages});
    const stream = new Stream(s, () => {}); // acks nothing until it has them all
    await stream.need(everything.length);
    assert.deepEqual(stream.messages.map(m => m.data.toString()), everything, 'order of the key');
    for (const m of stream.messages.toReversed()) m.ack();
    await stream.close();
    // Others get the key once all of it is acknowledged.
    await publisher.publish({topic: t.name, messages: [{data: Buffer.from('next'), orderingKey: 'a'}]});
    assert.deepEqual(texts(await pull(s, 1)), ['next']);
  },

  async filter() {
    const t = await topic();
    const s = await subscription(t, {filter: 'attributes.kind = "pdf" AND NOT hasPrefix(attributes.lang, "de")'});
    const send = (text, attributes) => t.publishMessage({data: Buffer.from(text), attributes});
    await send('yes', {kind: 'pdf', lang: 'fr'});
    await send('no language', {kind: 'pdf'});
    await send('german', {kind: 'pdf', lang: 'de-CH'});
    await send('other kind', {kind: 'mock', lang: 'fr'});
    await send('no attributes', {});
    const got = await pull(s, 2);
    assert.deepEqual(texts([...got, ...(await pullNow(s))]), ['no language', 'yes']);
    await assert.rejects(subscription(t, {filter: 'attributes.kind = pdf OR'}, '-bad'), {
      code: INVALID_ARGUMENT,
      message: /filter/i,
    });
  },

  async dead_letter() {
    const t = await topic();
    const dead = await topic('-dead');
    const deads = await subscription(dead, {}, '-dead');
    const s = await subscription(t, {deadLetterPolicy: {deadLetterTopic: dead.name, maxDeliveryAttempts: 5}});
    await t.publishMessage({data: Buffer.from('x'), attributes: {k: 'v'}});
    const stream = new Stream(s, m => m.nack());
    const got = await pull(deads, 1);
    assert.equal(got.length, 1, 'messages in the dead letter topic');
    assert.deepEqual(stream.messages.map(m => m.deliveryAttempt), [1, 2, 3, 4, 5]);
    await stream.close();
    const {CloudPubSubDeadLetterSourceTopicPublishTime: published, ...attributes} = got[0].message.attributes;
    assert(published, 'the dead letter tells when it was published');
    assert.deepEqual(attributes, {
      k: 'v',
      CloudPubSubDeadLetterSourceDeliveryCount: '5',
      CloudPubSubDeadLetterSourceSubscription: id(),
      CloudPubSubDeadLetterSourceSubscriptionProject: 'test',
    });
    assert.equal(got[0].message.data.toString(), 'x');
    assert.deepEqual(await pullNow(s), []);
  },

  async seek() {
    const t = await topic();
    const s = await subscription(t, {retainAckedMessages: true});
    await publish(t, 'a');
    const [a] = await pull(s, 1);
    const published = Number(a.message.publishTime.seconds) * 1000 + a.message.publishTime.nanos / 1e6;
    const between = Math.ceil(published) + 2;
    while (Date.now() < between + 2); // milliseconds, for the next message to be younger
    await publish(t, 'b');
    await ack(s, a, ...(await pull(s, 1)));
    // Not with s.seek(new Date(between)): the client takes its milliseconds for
    // microseconds.
    const time = {seconds: Math.floor(between / 1000), nanos: (between % 1000) * 1e6};
    await subscriber.seek({subscription: s.name, time});
    const b = await pull(s, 1);
    assert.deepEqual(texts([...b, ...(await pullNow(s))]), ['b'], 'after a seek between the two');
    await s.seek(new Date(Date.now() - 3_600_000));
    const both = await pull(s, 2);
    assert.deepEqual(texts(both), ['a', 'b'], 'after a seek back');
    await s.seek(new Date(Date.now() + 3_600_000));
    await modack(s, 0, ...both);
    assert.deepEqual(await pullNow(s), [], 'after a seek to the future');
  },

  async snapshot() {
    const t = await topic();
    const s = await subscription(t);
    await publish(t, 'acked', 'open');
    const first = Object.fromEntries((await pull(s, 2)).map(r => [r.message.data.toString(), r]));
    await ack(s, first.acked);
    const snapshot = s.snapshot(id());
    await snapshot.create();
    await ack(s, first.open);
    await publish(t, 'later');
    await ack(s, ...(await pull(s, 1)));
    await snapshot.seek();
    assert.deepEqual(texts(await pull(s, 2)), ['later', 'open']);
    const [updated] = await subscriber.updateSnapshot({
      snapshot: {name: snapshot.name, labels: {a: 'c'}},
      updateMask: {paths: ['labels']},
    });
    assert.deepEqual({...updated.labels}, {a: 'c'});
    const [all] = await pubsub.getSnapshots();
    assert(all.some(x => x.name === snapshot.name), 'the list has it');
    const [names] = await publisher.listTopicSnapshots({topic: t.name});
    assert.deepEqual(names, [snapshot.name], 'snapshots of the topic');
    await snapshot.delete();
    await assert.rejects(subscriber.getSnapshot({snapshot: snapshot.name}), {code: NOT_FOUND});
  },

  async exactly_once() {
    const t = await topic();
    const s = await subscription(t, {enableExactlyOnceDelivery: true, ackDeadlineSeconds: 60});
    await publish(t, 'x');
    const stream = new Stream(s, () => {});
    const [first] = await stream.need(1);
    assert.deepEqual(await pullNow(s), [], 'messages for others while it is leased');
    // Somebody else gives the lease up: the stream gets the message again.
    await modack(s, 0, first);
    const [, second] = await stream.need(2);
    assert.equal(second.id, first.id);
    await assert.rejects(first.ackWithResponse(), {errorCode: 'INVALID'}, 'ack with a stale ack id');
    assert.equal(await second.ackWithResponse(), 'SUCCESS');
    await stream.close();
    await assert.rejects(
      subscriber.acknowledge({subscription: s.name, ackIds: [first.ackId]}, {retry: null}),
      e => {
        assert.equal(e.code, FAILED_PRECONDITION);
        assert.deepEqual({...e.errorInfoMetadata}, {[first.ackId]: 'PERMANENT_FAILURE_INVALID_ACK_ID'});
        return true;
      },
    );
    assert.deepEqual(await pullNow(s), []);
  },

  async update_with_mask() {
    const t = await topic('', {labels: {a: 'b'}});
    const s = await subscription(t, {labels: {a: 'b'}});
    const update = async (paths, fields) => {
      const [got] = await subscriber.updateSubscription({
        subscription: {name: s.name, ...fields},
        updateMask: {paths},
      });
      return got;
    };
    let got = await update(['ack_deadline_seconds'], {ackDeadlineSeconds: 30, labels: {c: 'd'}});
    assert.deepEqual([got.ackDeadlineSeconds, {...got.labels}], [30, {a: 'b'}]);
    got = await update(['labels', 'message_retention_duration'], {messageRetentionDuration: {seconds: 600}});
    assert.deepEqual([Number(got.messageRetentionDuration.seconds), {...got.labels}], [600, {}]);
    const [read] = await subscriber.getSubscription({subscription: s.name});
    assert.deepEqual(read, got);
    await assert.rejects(update([], {}), {code: INVALID_ARGUMENT});
    await assert.rejects(update(['colour'], {}), {code: INVALID_ARGUMENT});
    await assert.rejects(update(['topic'], {topic: t.name}), {code: INVALID_ARGUMENT});
    await t.setMetadata({labels: {x: 'y'}});
    const [metadata] = await t.getMetadata();
    assert.deepEqual({...metadata.labels}, {x: 'y'});
  },

  async lists() {
    const project = new PubSub({projectId: 'node-lists'});
    const names = Array.from({length: 7}, (_, i) => i);
    for (const i of names) await project.createTopic(`topic-${i}`);
    for (const i of names) await project.topic('topic-0').createSubscription(`sub-${i}`);
    const topics = [];
    let query = {pageSize: 3, autoPaginate: false};
    const pages = [];
    while (query) {
      let page;
      [page, query] = await project.getTopics(query);
      pages.push(page.length);
      topics.push(...page.map(t => t.name));
      if (query && !query.pageToken) query = null;
    }
    assert.deepEqual(pages, [3, 3, 1]);
    assert.deepEqual(topics.sort(), names.map(i => `projects/node-lists/topics/topic-${i}`));
    const want = names.map(i => `projects/node-lists/subscriptions/sub-${i}`);
    const [subs] = await project.getSubscriptions({pageSize: 2, autoPaginate: true});
    assert.deepEqual(subs.map(s => s.name).sort(), want);
    const [ofTopic] = await project.topic('topic-0').getSubscriptions({pageSize: 4, autoPaginate: true});
    assert.deepEqual(ofTopic.map(s => s.name).sort(), want);
    const [ofOther] = await project.topic('topic-1').getSubscriptions();
    assert.deepEqual(ofOther, []);
    const [none] = await new PubSub({projectId: 'node-none'}).getTopics();
    assert.deepEqual(none, []);
  },

  async detach() {
    const t = await topic();
    const s = await subscription(t);
    await publish(t, 'x');
    await pubsub.detachSubscription(s.name);
    await assert.rejects(subscriber.pull({subscription: s.name, maxMessages: 1}), {
      code: FAILED_PRECONDITION,
      message: /detached/,
    });
    assert.deepEqual(await s.detached(), [true]);
    const [left] = await t.getSubscriptions();
    assert.deepEqual(left, [], 'subscriptions of the topic');
  },

  async delete_while_streaming() {
    const t = await topic();
    const s = await subscription(t);
    await publish(t, 'x');
    const stream = new Stream(s);
    await stream.need(1);
    await s.delete();
    assert(await stream.until(() => stream.error), 'the stream of a deleted subscription ends with an error');
    assert.equal(stream.error.code, NOT_FOUND);
    await t.delete();
    await assert.rejects(publish(t, 'x'), {code: NOT_FOUND});
  },

  async restart() {
    const t = await topic();
    const s = await subscription(t);
    await publish(t, 'before');
    const stream = new Stream(s);
    await stream.need(1);
    process.stdout.write('restart\n');
    await once(process.stdin, 'data');
    process.stdin.destroy();
    await publish(t, 'after');
    const [, after] = await stream.need(2);
    assert.equal(after.data.toString(), 'after');
    await stream.close();
  },

  async large() {
    const t = await topic();
    const s = await subscription(t);
    const data = Buffer.alloc(9_900_000, Buffer.from(Array.from({length: 256}, (_, i) => i)));
    await t.publishMessage({data});
    const got = await pull(s, 1);
    assert(data.equals(got[0].message.data), 'data pulled is what was published');
    await modack(s, 0, ...got);
    const stream = new Stream(s);
    const [m] = await stream.need(1);
    assert(data.equals(m.data), 'data streamed is what was published');
    await stream.close();
  },

  async batch() {
    const t = await topic();
    const s = await subscription(t);
    const thousand = pubsub.topic(t.name, {
      batching: {maxMessages: 1000, maxBytes: 9_000_000, maxMilliseconds: SOON},
    });
    const want = Array.from({length: 1000}, (_, i) => `message ${i}`);
    const ids = await publish(thousand, ...want);
    assert.equal(new Set(ids).size, 1000);
    const got = await pull(s, 1000);
    assert.deepEqual(texts(got), want.sort());
    await ack(s, ...got);
    assert.deepEqual(await pullNow(s), []);
  },
};

await scenarios[scenario]();
// The client keeps its connections, and so the process, for a while.
process.exit(0);

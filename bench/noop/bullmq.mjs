// Queues tasks that do nothing, works them off and prints tasks/s, seconds of processor time a task and the
// most memory, in bytes.
import { readFileSync } from "node:fs";
import { Queue, Worker } from "bullmq";

const n = Number(process.env.BENCH_TASKS);
const connection = { host: "127.0.0.1", port: Number(process.env.REDIS_PORT) };
const queue = new Queue("bench", { connection });
for (let i = 0; i < n; i += 1000) {
  await queue.addBulk(Array.from({ length: Math.min(1000, n - i) }, (_, k) => ({ name: "noop", data: { i: i + k } })));
}

let done = 0;
let began;
let used;
const worker = new Worker("bench", async () => {}, { connection, concurrency: Number(process.env.BENCH_SLOTS), autorun: false });
const finished = new Promise((resolve) => {
  worker.on("completed", () => {
    if (done === 0) {
      began = performance.now();
      used = process.cpuUsage();
    }
    if (++done === n) resolve();
  });
});
worker.run();
await finished;
const took = (performance.now() - began) / 1000;
const cpu = process.cpuUsage(used);
const peak = Number(/VmHWM:\s+(\d+)/.exec(readFileSync("/proc/self/status", "utf8"))[1]) * 1024;
console.log(n / took, (cpu.user + cpu.system) / 1e6 / n, peak);
await worker.close();
await queue.close();

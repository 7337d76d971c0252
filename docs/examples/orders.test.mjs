import assert from "node:assert";
import { spawn } from "node:child_process";
import { after, before, test } from "node:test";
import { Kafka } from "kafkajs";

let cluster, where;
before(async () => {
  cluster = spawn("kraft", ["cluster", "start", "--ephemeral", "--json", "-n", "1"], { stdio: ["pipe", "pipe", "inherit"] });
  where = JSON.parse(await new Promise(resolve => cluster.stdout.once("data", resolve)));
});
after(() => cluster.stdin.end());

test("an order comes back", async () => {
  const kafka = new Kafka({ brokers: where.bootstrap.split(",") });
  const producer = kafka.producer(), consumer = kafka.consumer({ groupId: "billing" });
  await producer.connect();
  await producer.send({ topic: "orders", messages: [{ value: "one coffee" }] });
  await consumer.connect();
  await consumer.subscribe({ topic: "orders", fromBeginning: true });
  const value = await new Promise(resolve => consumer.run({ eachMessage: async ({ message }) => resolve(message.value.toString()) }));
  assert.equal(value, "one coffee");
  await consumer.disconnect();
  await producer.disconnect();
});

// npm install && npm start, then: curl -X POST localhost:3000/job
import express from "express";
import { Redlock } from "redlock-native";
import { jobHandler } from "./job.mjs";

const redlock = new Redlock(process.env.REDIS_URL ?? "redis://127.0.0.1:6379");
const app = express();

// If the handler rejects, for example with QuorumUnavailable, Express responds with 500.
app.post("/job", jobHandler(redlock, "job"));

const server = app.listen(process.env.PORT ?? 3000, "127.0.0.1", () => {
  console.log(`listening on http://127.0.0.1:${server.address().port}`);
});

// Requests in progress end first, and release their locks.
process.once("SIGTERM", () => server.close(() => redlock.shutdown()));

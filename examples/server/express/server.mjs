// npm install && npm start, then: curl -X POST localhost:3000/job
import express from "express";
import { Redlock } from "redlock-native";
import { jobHandler } from "./job.mjs";

const redlock = new Redlock(process.env.REDIS_URL ?? "redis://127.0.0.1:6379");
const app = express();

// Express answers 500 to what the handler rejects with, such as QuorumUnavailable.
app.post("/job", jobHandler(redlock, "job"));

const server = app.listen(process.env.PORT ?? 3000, "127.0.0.1", () => {
  console.log(`listening on http://127.0.0.1:${server.address().port}`);
});

// Requests under way end first, and release what they hold.
process.once("SIGTERM", () => server.close(() => redlock.shutdown()));

/** Handles what the native part reports besides the outcomes of calls. */

import { type CoreEvent, type Failure, Notice } from "../native.js";
import { callAddressMap, callCredentials } from "../options/callbacks.js";
import { publishEvent } from "../telemetry/events.js";
import { emitCoreWarning } from "../telemetry/warnings.js";
import { runtime } from "./connection.js";
import { deliverLoss } from "./loss-watches.js";
import { requestEvents } from "./sender.js";

/** Handles a notice. `number` is that of a lease, or of the functions of a client. */
export function handleNotice(kind: Notice, number: number, payload: unknown): void {
  switch (kind) {
    case Notice.Credentials:
      void returnCredentials(number, payload as number);
      break;
    case Notice.AddressMap:
      void returnAddress(number, ...(payload as [number, string, number]));
      break;
    case Notice.Event:
      publishEvent(payload as CoreEvent);
      requestEvents();
      break;
    case Notice.Warning:
      emitCoreWarning(payload as string);
      break;
    case Notice.Loss:
      deliverLoss(number, payload as Failure);
  }
}

async function returnCredentials(functions: number, request: number): Promise<void> {
  runtime.returnCredentials(request, ...(await callCredentials(functions)));
}

async function returnAddress(
  functions: number,
  request: number,
  host: string,
  port: number,
): Promise<void> {
  runtime.returnAddress(request, ...(await callAddressMap(functions, host, port)));
}

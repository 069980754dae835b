// The same names from an ES module, where the package's ESM types are used.
import { LockTimeout, Redlock } from "redlock-native";

export const acquire = (): Promise<string> => new Redlock("memory://").using("a", () => "b");
export const late = (error: unknown): boolean => error instanceof LockTimeout;

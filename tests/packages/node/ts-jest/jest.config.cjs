module.exports = { preset: "ts-jest", testMatch: ["**/*.test.ts"] };

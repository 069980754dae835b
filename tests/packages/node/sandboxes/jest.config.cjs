module.exports = { testMatch: ["**/*.test.js"] };

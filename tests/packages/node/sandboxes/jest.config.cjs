// With CONTROL, the same files run over a package that does nothing. The growth is then Jest's.
const control = { "^redlock-native$": "<rootDir>/control.cjs" };
module.exports = {
  testMatch: ["**/*.test.js"],
  moduleNameMapper: process.env.CONTROL ? control : {},
};

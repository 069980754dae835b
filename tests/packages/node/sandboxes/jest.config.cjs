// With CONTROL the same files run over a package that does nothing: what grows then is Jest's own.
const control = { "^redlock-native$": "<rootDir>/control.cjs" };
module.exports = {
  testMatch: ["**/*.test.js"],
  moduleNameMapper: process.env.CONTROL ? control : {},
};

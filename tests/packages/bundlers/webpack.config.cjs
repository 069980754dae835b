module.exports = {
  mode: "production",
  target: "node",
  entry: "./app.mjs",
  output: { path: `${__dirname}/out`, filename: "webpack.js" },
  // The line of docs/reference/node-details.md.
  externals: { "redlock-native": "commonjs redlock-native" },
};

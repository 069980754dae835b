//! The command line `redlock`, for `npx redlock`.

use napi_derive::napi;

/// Runs the command line with these words, the first of which is the name of the program. Ends the process.
#[napi(catch_unwind)]
pub fn command_line(words: Vec<String>) {
    redlock_cli::main(words.into_iter().map(Into::into)).exit();
}

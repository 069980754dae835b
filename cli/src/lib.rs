//! The command line `redlock`, as a library: the binary, `python -m redlock` and `npx redlock` call [`main()`].
//!
//! Each command has a module with its arguments. Below them are what they share: the client's options, the output, and
//! the exit statuses. All decisions about locks are the core's.

mod doctor;
mod inspect;
mod list;
mod release;
#[cfg(unix)]
mod run;
mod wait;

mod connection;
mod report;
mod snapshot;
mod status;
mod times;

use std::ffi::OsString;
use std::future::Future;
use std::iter;

use clap::{CommandFactory, Parser, Subcommand};

pub use status::Status;

/// Distributed locks over Redis and Valkey, for scripts and operators.
#[derive(Parser)]
#[command(name = "redlock", version, propagate_version = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    #[cfg(unix)]
    Run(run::Args),
    Inspect(inspect::Args),
    Ls(list::Args),
    Wait(wait::Args),
    Release(release::Args),
    Doctor(doctor::Args),
    /// Prints a script that completes commands and options in a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Prints a man page.
    Man {
        /// The command of which to print the page [default: redlock itself]
        command: Option<String>,
    },
}

/// Runs one command line, whose first word is the name of the program. Returns its exit status.
///
/// ```
/// let status = redlock_cli::main(["redlock", "--version"].map(Into::into));
/// assert_eq!(status.code(), 0);
/// ```
pub fn main(words: impl IntoIterator<Item = OsString>) -> Status {
    // The caller may have another name, such as that of a script.
    let words = iter::once("redlock".into()).chain(words.into_iter().skip(1));
    let cli = match Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(message) => {
            // Nothing is left to do if the output is closed.
            let _ = message.print();
            return if message.use_stderr() { status::USAGE } else { Status::SUCCESS };
        }
    };
    match cli.command {
        #[cfg(unix)]
        Command::Run(args) => block_on(run::run(args)),
        Command::Inspect(args) => block_on(inspect::inspect(args)),
        Command::Ls(args) => block_on(list::list(args)),
        Command::Wait(args) => block_on(wait::wait(args)),
        Command::Release(args) => block_on(release::release(args)),
        Command::Doctor(args) => block_on(doctor::doctor(args)),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "redlock", &mut script);
            report::print(String::from_utf8_lossy(&script).trim_end());
            Status::SUCCESS
        }
        Command::Man { command } => man(command.as_deref()),
    }
}

/// Prints the man page of the program, or of one of its commands.
fn man(command: Option<&str>) -> Status {
    // Names the program in the pages of its commands.
    let mut cli = Cli::command();
    cli.build();
    let page = match command {
        None => Some(&cli),
        Some(name) => cli.find_subcommand(name),
    };
    let Some(page) = page else {
        report::print_message(&format!(
            "no command has this name (got {:?})",
            command.unwrap_or_default()
        ));
        return status::USAGE;
    };
    let mut text = Vec::new();
    // Writing to memory cannot fail.
    let _ = clap_mangen::Man::new(page.clone()).render(&mut text);
    report::print(String::from_utf8_lossy(&text).trim_end());
    Status::SUCCESS
}

fn block_on(command: impl Future<Output = Status>) -> Status {
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(command),
        Err(error) => {
            report::print_message(&format!("cannot start: {error}"));
            status::INTERNAL
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// clap checks its own rules, such as those of names that collide, only when a command is used.
    #[test]
    fn definition_of_every_command_is_consistent() {
        Cli::command().debug_assert();
    }
}

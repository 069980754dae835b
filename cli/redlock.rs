//! The command `redlock`.

fn main() {
    redlock_cli::main(std::env::args_os()).exit()
}

//! Unit tests of the whole core: the simulation, which uses private items, and a time limit for every test.

#[cfg(target_os = "linux")]
mod limit;
#[cfg(feature = "simulation")]
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::format_push_string,
    clippy::type_complexity,
    clippy::too_many_arguments,
    clippy::struct_excessive_bools,
    reason = "a simulation prints its times and passes its world around"
)]
mod simulation;

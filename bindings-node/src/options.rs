//! Reads options from JavaScript objects, with the option table of core.

use napi::bindgen_prelude::{Either, JsObjectValue, Null, Object, Uint8Array};
use napi_derive::napi;
use redlock::Pem;
use redlock::ffi::{
    self, AddressMapOption, Args, CLIENT_OPTIONS, ClientArgs, DefaultTrust, Described, Kind,
    LockArgs, Row, Unit,
};

use crate::callbacks::{address_map, credentials};
use crate::number::Number;
use crate::runtime::ThreadState;

/// One row of the option table.
#[napi(object, object_from_js = false)]
pub struct OptionRow {
    /// The name in JavaScript.
    pub name: String,
    /// The type of the value.
    #[napi(
        ts_type = "'milliseconds' | 'milliseconds or null' | 'count' | 'boolean' | 'string' | 'label' | 'pem' | 'function' | 'address map'"
    )]
    pub kind: String,
}

/// Returns the options of a client.
#[napi(catch_unwind)]
pub fn client_options() -> Vec<OptionRow> {
    CLIENT_OPTIONS.iter().map(OptionRow::from).collect()
}

/// Returns the options of a lock.
#[napi(catch_unwind)]
pub fn lock_options() -> Vec<OptionRow> {
    Described::Lock.rows().map(OptionRow::from).collect()
}

/// Returns the options of a semaphore.
#[napi(catch_unwind)]
pub fn semaphore_options() -> Vec<OptionRow> {
    Described::Semaphore.rows().map(OptionRow::from).collect()
}

/// Returns the options of a run that happens once.
#[napi(catch_unwind)]
pub fn once_options() -> Vec<OptionRow> {
    Described::Once.rows().map(OptionRow::from).collect()
}

/// Returns the options of a candidate of an election.
#[napi(catch_unwind)]
pub fn leader_options() -> Vec<OptionRow> {
    Described::Leader.options().map(OptionRow::from).collect()
}

/// Returns the options of a side of a read/write lock.
#[napi(catch_unwind)]
pub fn side_options(shared: bool) -> Vec<OptionRow> {
    Described::Side { shared }.rows().map(OptionRow::from).collect()
}

/// Returns what to write instead of an option that a call does not have. `valid` are the options of the call.
#[napi(catch_unwind)]
pub fn instead_of(option: String, valid: Vec<String>) -> String {
    let valid: Vec<_> = valid.iter().map(String::as_str).collect();
    ffi::instead_of(&option, &valid, Unit::Milliseconds)
}

impl<T> From<&Row<T>> for OptionRow {
    fn from(row: &Row<T>) -> Self {
        let kind = match row.kind {
            Kind::Time(_) | Kind::TimeOrForEver(_) => "milliseconds",
            Kind::TimeOrNull(_) => "milliseconds or null",
            Kind::Count(..) => "count",
            Kind::Switch(_) => "boolean",
            Kind::Text(_) => "string",
            Kind::Label(_) => "label",
            Kind::Pem(_) => "pem",
            Kind::Credentials(_) => "function",
            Kind::AddressMap(_) => "address map",
        };
        Self { name: ffi::spelled(row.name).into_owned(), kind: kind.to_owned() }
    }
}

/// Reads a client's options from an object whose names and types are checked. Functions are their numbers, by which the
/// thread calls them.
pub(crate) fn client_args(given: &Object<'_>, thread: &ThreadState) -> napi::Result<ClientArgs> {
    read_options(ClientArgs::of_client(Unit::Milliseconds), CLIENT_OPTIONS, given, Some(thread))
}

/// Reads what Node.js trusts, which is passed along with the options of a client.
pub(crate) fn default_trust(given: &Object<'_>) -> napi::Result<Option<DefaultTrust>> {
    let Some(trust) = given.get::<Object<'_>>("trust")? else { return Ok(None) };
    let roots = trust.get::<Uint8Array>("roots")?.map_or_else(Vec::new, |roots| roots.to_vec());
    let with_system = trust.get("withSystem")?.unwrap_or_default();
    Ok(Some(DefaultTrust { roots, with_system }))
}

/// Reads the options of a lock from an object whose names and types are checked.
pub(crate) fn lock_args(given: &Object<'_>) -> napi::Result<LockArgs> {
    let described =
        Described::described_by(given.get("shared")?, |name| given.has_named_property(name))?;
    read_options(LockArgs::of_lock(Unit::Milliseconds), described.rows(), given, None)
}

fn read_options<T: 'static>(
    mut args: Args<T>,
    rows: impl IntoIterator<Item = &'static Row<T>>,
    given: &Object<'_>,
    thread: Option<&ThreadState>,
) -> napi::Result<Args<T>> {
    for row in rows {
        let (to, name) = (row.name, ffi::spelled(row.name));
        args = match row.kind {
            Kind::Time(_) | Kind::TimeOrForEver(_) | Kind::Count(..) => {
                args.with(to, given.get::<f64>(&name)?)
            }
            Kind::TimeOrNull(_) => {
                let time = given.get::<Either<f64, Null>>(&name)?;
                args.with(
                    to,
                    time.map(|time| if let Either::A(time) = time { time } else { f64::INFINITY }),
                )
            }
            Kind::Switch(_) => args.with(to, given.get::<bool>(&name)?),
            Kind::Text(_) => args.with(to, given.get::<String>(&name)?),
            Kind::Label(_) => args.with(to, label(given, &name)?),
            Kind::Pem(_) => args.with(to, pem(given, &name)?),
            Kind::Credentials(_) => {
                let function = thread.zip(given.get::<Number>(&name)?);
                args.with(to, function.map(|(thread, function)| credentials(thread, function)))
            }
            Kind::AddressMap(_) => {
                let map = thread.zip(given.get::<Either<Number, Vec<(String, String)>>>(&name)?);
                args.with(
                    to,
                    map.map(|(thread, map)| match map {
                        Either::A(function) => {
                            AddressMapOption::Function(address_map(thread, function))
                        }
                        Either::B(entries) => AddressMapOption::Table(entries),
                    }),
                )
            }
        };
    }
    Ok(args)
}

/// A boolean is whether to write the label of this process, and a string is the label.
fn label(given: &Object<'_>, name: &str) -> napi::Result<Option<ffi::Value>> {
    Ok(given.get::<Either<bool, String>>(name)?.map(|label| match label {
        Either::A(yes) => yes.into(),
        Either::B(text) => text.into(),
    }))
}

/// A string is the path of a PEM file, and bytes are its content.
fn pem(given: &Object<'_>, name: &str) -> napi::Result<Option<Pem>> {
    Ok(given.get::<Either<String, Uint8Array>>(name)?.map(|value| match value {
        Either::A(path) => path.into(),
        Either::B(bytes) => bytes.to_vec().into(),
    }))
}

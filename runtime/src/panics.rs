// SPDX-License-Identifier: Apache-2.0
//! Messages of panics in the log.

use std::any::Any;
use std::panic::{self, PanicHookInfo};
use std::sync::Once;

use crate::host::Severity;

/// From now on the message and place of each panic of this process's Rust code also go to `log`: an app's standard error
/// is `/dev/null`. Only the first call has an effect.
pub fn log_panics(log: fn(Severity, &str)) {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            log(Severity::Error, &description(info));
            before(info);
        }));
    });
}

fn description(info: &PanicHookInfo<'_>) -> String {
    let message = message(info.payload());
    match info.location() {
        Some(place) => format!("panic at {}:{}: {message}", place.file(), place.line()),
        None => format!("panic: {message}"),
    }
}

fn message(payload: &(dyn Any + Send)) -> &str {
    if let Some(text) = payload.downcast_ref::<&str>() {
        text
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text
    } else {
        "no message"
    }
}

// SPDX-License-Identifier: Apache-2.0
//! Watches a system property, with functions of Android's C library.
//!
//! The functions are looked up at run time, so this code is the same everywhere: other C libraries lack them, and a
//! test can bring its own.

use std::ffi::{c_char, c_void, CStr, CString};
use std::io;

/// Bionic's `prop_info`.
type PropInfo = c_void;
type Receive = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char, u32);

/// `<sys/system_properties.h>` of API level 26.
#[derive(Clone, Copy)]
pub(crate) struct Properties {
    /// Returns the property of this name, null if it does not exist yet. A property is never removed.
    find: unsafe extern "C" fn(*const c_char) -> *const PropInfo,
    /// Calls back once with name, value and serial number.
    read: unsafe extern "C" fn(*const PropInfo, Receive, *mut c_void),
    /// Waits until the property's serial number differs from the old one, and stores the new one. A null property
    /// stands for the serial number of all properties. False if the time is up; without a time it waits for ever.
    wait: unsafe extern "C" fn(*const PropInfo, u32, *mut u32, *const libc::timespec) -> bool,
}

impl Properties {
    /// The functions of the C library, if it has them.
    pub(crate) fn of_this_system() -> Option<Self> {
        fn symbol(name: &CStr) -> Option<*mut c_void> {
            // SAFETY: `name` is a C string.
            let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
            (!address.is_null()).then_some(address)
        }
        let find = symbol(c"__system_property_find")?;
        let read = symbol(c"__system_property_read_callback")?;
        let wait = symbol(c"__system_property_wait")?;
        // SAFETY: only the C library defines functions of these names, with these types.
        unsafe {
            Some(Properties {
                find: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(*const c_char) -> *const PropInfo,
                >(find),
                read: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(*const PropInfo, Receive, *mut c_void),
                >(read),
                wait: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(
                        *const PropInfo,
                        u32,
                        *mut u32,
                        *const libc::timespec,
                    ) -> bool,
                >(wait),
            })
        }
    }

    /// The property's value; `None` if it is not set, or this process may not read it.
    fn value(&self, name: &CStr) -> Option<String> {
        // SAFETY: `name` is a C string.
        let property = unsafe { (self.find)(name.as_ptr()) };
        if property.is_null() {
            return None;
        }
        let mut seen = Seen::default();
        // SAFETY: a property is never removed, and `receive` gets the `Seen` that it expects.
        unsafe { (self.read)(property, receive, (&raw mut seen).cast()) };
        Some(seen.value)
    }

    /// Calls `changed` with the property's value, as soon as it has one, and with each new value, until that returns
    /// false. Of values that follow each other fast, all but the last may be missed.
    pub(crate) fn watch(self, name: &CStr, changed: &mut dyn FnMut(&str) -> bool) {
        let mut any = 0;
        let property = loop {
            // SAFETY: the arguments are valid by bionic's documentation: a null property stands for all properties, a
            // null time for no limit.
            unsafe {
                let property = (self.find)(name.as_ptr());
                if !property.is_null() {
                    break property;
                }
                (self.wait)(std::ptr::null(), any, &mut any, std::ptr::null());
            }
        };
        loop {
            let mut seen = Seen::default();
            // SAFETY: a property is never removed, and `receive` gets the `Seen` that it expects.
            unsafe { (self.read)(property, receive, (&raw mut seen).cast()) };
            if !changed(&seen.value) {
                return;
            }
            let mut serial = seen.serial;
            // SAFETY: a property is never removed; a null time means no limit.
            unsafe { (self.wait)(property, seen.serial, &mut serial, std::ptr::null()) };
        }
    }
}

#[derive(Default)]
struct Seen {
    value: String,
    serial: u32,
}

/// # Safety
/// `seen` points to a `Seen`, `value` to a C string.
unsafe extern "C" fn receive(
    seen: *mut c_void,
    _name: *const c_char,
    value: *const c_char,
    serial: u32,
) {
    // SAFETY: the caller passes such pointers.
    let (seen, value) = unsafe { (&mut *seen.cast::<Seen>(), CStr::from_ptr(value)) };
    seen.value = value.to_string_lossy().into_owned();
    seen.serial = serial;
}

/// Whether this is a debuggable build of Android, or no Android at all.
pub(crate) fn is_debuggable_build() -> bool {
    if !cfg!(target_os = "android") {
        return true;
    }
    let value = Properties::of_this_system().and_then(|p| p.value(c"ro.debuggable"));
    value.as_deref() == Some("1")
}

/// Starts a thread that watches the property `name` until `changed` returns false. Nobody waits for the thread, which
/// notices that at the next change only.
///
/// # Errors
/// If this system has no properties, or no thread can be started.
pub(crate) fn watch(
    name: &str,
    mut changed: impl FnMut(&str) -> bool + Send + 'static,
) -> io::Result<()> {
    let properties = Properties::of_this_system().ok_or_else(|| {
        io::Error::new(io::ErrorKind::Unsupported, "this system has no properties")
    })?;
    let name = CString::new(name)?;
    std::thread::Builder::new()
        .name("hindsight-prop".into())
        .spawn(move || properties.watch(&name, &mut changed))
        .map(drop)
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;
    use std::sync::{mpsc, Condvar, Mutex};

    /// One property, as bionic keeps it.
    struct Fake {
        /// Serial number and, once it is set, value.
        property: Mutex<(u32, Option<CString>)>,
        changed: Condvar,
    }

    static FAKE: Fake = Fake {
        property: Mutex::new((0, None)),
        changed: Condvar::new(),
    };

    fn set(value: &str) {
        let mut property = FAKE.property.lock().unwrap();
        property.0 += 2;
        property.1 = Some(CString::new(value).unwrap());
        FAKE.changed.notify_all();
    }

    unsafe extern "C" fn find(name: *const c_char) -> *const PropInfo {
        // SAFETY: `watch` passes a C string.
        assert_eq!(unsafe { CStr::from_ptr(name) }, c"dev.test");
        let is_set = FAKE.property.lock().unwrap().1.is_some();
        if is_set {
            (&raw const FAKE).cast()
        } else {
            std::ptr::null()
        }
    }

    unsafe extern "C" fn read(property: *const PropInfo, receive: Receive, cookie: *mut c_void) {
        assert_eq!(property, (&raw const FAKE).cast());
        let now = FAKE.property.lock().unwrap().clone();
        // SAFETY: the arguments that `watch` passed, and C strings.
        unsafe { receive(cookie, c"dev.test".as_ptr(), now.1.unwrap().as_ptr(), now.0) };
    }

    unsafe extern "C" fn wait(
        _property: *const PropInfo,
        old: u32,
        new: *mut u32,
        time: *const libc::timespec,
    ) -> bool {
        assert!(time.is_null());
        let mut property = FAKE.property.lock().unwrap();
        while property.0 == old {
            property = FAKE.changed.wait(property).unwrap();
        }
        // SAFETY: `watch` passes the address of a variable.
        unsafe { *new = property.0 };
        true
    }

    #[test]
    fn values_arrive_from_the_first_one_on_until_nobody_wants_them() {
        let (values, received) = mpsc::channel();
        let watcher = std::thread::spawn(move || {
            let properties = Properties { find, read, wait };
            properties.watch(c"dev.test", &mut |value| {
                values.send(value.to_owned()).unwrap();
                value != "end"
            });
        });
        for value in ["com.example:out", "", "com.example:2", "end"] {
            set(value);
            assert_eq!(received.recv().unwrap(), value);
        }
        watcher.join().unwrap();
        let properties = Properties { find, read, wait };
        assert_eq!(properties.value(c"dev.test").as_deref(), Some("end"));
    }

    #[test]
    fn a_system_without_properties_is_an_error() {
        let error = watch("dev.test", |_| true).unwrap_err();
        assert!(error.to_string().contains("has no properties"));
    }
}

// SPDX-License-Identifier: Apache-2.0
//! The native half of `dev.hindsight.vm.KernelBinder`, which `cargo xtask lab vm` runs in its guest: transactions through the
//! driver of the guest's kernel, as libbinder sends and serves them on a device. The server is the context manager, so
//! that its client finds it as handle 0 without a service manager.

use jni::objects::{GlobalRef, JClass, JObject, JValue};
use jni::sys::jint;
use jni::{JNIEnv, JavaVM};
use rsbinder::thread_state::{get_calling_pid, get_calling_uid};
use rsbinder::{Binder, Interface as _, Parcel, ProcessState, Remotable, SIBinder, StatusCode};
use std::error::Error;
use std::sync::OnceLock;

/// The device; the driver makes it.
const DEVICE: &str = "/dev/binder";
/// `execTransact` of the Java class.
const EXECUTE: (&str, &str) = (
    "execTransact",
    "(Ldev/hindsight/vm/KernelBinder$Service;IIII)I",
);

/// The server's object: it calls the Java class on the thread that the kernel has given the transaction to.
struct Server {
    vm: JavaVM,
    class: GlobalRef,
    service: GlobalRef,
}

impl Remotable for Server {
    fn descriptor() -> &'static str {
        "dev.hindsight.vm.KernelBinder"
    }

    fn on_transact(
        &self,
        code: u32,
        data: &mut Parcel,
        reply: &mut Parcel,
    ) -> rsbinder::Result<()> {
        // Such as a question for the descriptor, which rsbinder answers.
        if !(rsbinder::FIRST_CALL_TRANSACTION..=rsbinder::LAST_CALL_TRANSACTION).contains(&code) {
            return Err(StatusCode::UnknownTransaction);
        }
        let number: i32 = data.read()?;
        let answer = self.execute(code as jint, number);
        reply.write(&answer.map_err(|_| StatusCode::FailedTransaction)?)
    }

    fn on_dump(&self, _: &mut dyn std::io::Write, _: &[String]) -> rsbinder::Result<()> {
        Ok(())
    }
}

impl Server {
    fn execute(&self, code: jint, data: jint) -> jni::errors::Result<jint> {
        let mut env = self.vm.get_env()?;
        let class: &JClass = self.class.as_obj().into();
        let arguments = [
            JValue::Object(self.service.as_obj()),
            JValue::Int(code),
            JValue::Int(data),
            JValue::Int(get_calling_pid()),
            JValue::Int(get_calling_uid() as jint),
        ];
        let result = env.call_static_method(class, EXECUTE.0, EXECUTE.1, &arguments);
        if result.is_err() {
            env.exception_describe()?;
            env.exception_clear()?;
        }
        result?.i()
    }
}

fn register(env: &JNIEnv, class: &JClass, service: &JObject) -> Result<(), Box<dyn Error>> {
    let server = Server {
        vm: env.get_java_vm()?,
        class: env.new_global_ref(class)?,
        service: env.new_global_ref(service)?,
    };
    state()?.become_context_manager(Binder::new(server).as_binder())
}

/// This process's side of binder, without threads of its own: who calls `serve` serves.
fn state() -> Result<&'static ProcessState, Box<dyn Error>> {
    ProcessState::init(DEVICE, 0)
}

/// The context manager. Kept: to find it is a transaction of its own.
fn server() -> Result<&'static SIBinder, Box<dyn Error>> {
    static SERVER: OnceLock<SIBinder> = OnceLock::new();
    if let Some(server) = SERVER.get() {
        return Ok(server);
    }
    let found = state()?.context_object()?;
    Ok(SERVER.get_or_init(|| found))
}

fn transact(code: jint, data: jint) -> Result<jint, Box<dyn Error>> {
    let server = server()?;
    let proxy = server.as_remote().ok_or("the server is this process")?;
    let mut parcel = proxy.prepare_transact(true)?;
    parcel.write(&data)?;
    let reply = proxy.submit_transact(code as u32, &parcel, 0)?;
    Ok(reply.ok_or("the reply is empty")?.read()?)
}

fn throw(env: &mut JNIEnv, error: &dyn Error) {
    // If that fails, another exception is pending.
    let _ = env.throw_new("java/io/IOException", format!("{DEVICE}: {error}"));
}

/// Makes this process the context manager.
#[no_mangle]
pub extern "system" fn Java_dev_hindsight_vm_KernelBinder_nativeRegister(
    mut env: JNIEnv,
    class: JClass,
    service: JObject,
) {
    if let Err(error) = register(&env, &class, &service) {
        throw(&mut env, &*error);
    }
}

/// Serves transactions on the calling thread. Returns only with an exception.
#[no_mangle]
pub extern "system" fn Java_dev_hindsight_vm_KernelBinder_nativeServe(
    mut env: JNIEnv,
    _class: JClass,
) {
    match ProcessState::join_thread_pool() {
        Ok(()) => throw(&mut env, &StatusCode::DeadObject),
        Err(error) => throw(&mut env, &error),
    }
}

/// Sends a transaction to the context manager; returns its answer.
#[no_mangle]
pub extern "system" fn Java_dev_hindsight_vm_KernelBinder_nativeTransact(
    mut env: JNIEnv,
    _class: JClass,
    code: jint,
    data: jint,
) -> jint {
    transact(code, data).unwrap_or_else(|error| {
        throw(&mut env, &*error);
        0
    })
}

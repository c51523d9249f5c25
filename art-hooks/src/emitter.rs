// SPDX-License-Identifier: Apache-2.0
//! Machine code for ART's code generators.

use crate::bridge::ffi::{EmittedCode, Isa, Site, TracePointSpec};

/// The code of a trace point, or what is wrong with the specification.
pub(crate) fn emit_trace_point(spec: &TracePointSpec) -> EmittedCode {
    let is_stub_call = !matches!(spec.site, Site::InlineEntry | Site::InlineExit);
    let emitted = match spec.isa {
        // A 32-bit pointer is never wide.
        isa if cfg!(feature = "wide-method-pointers") && is_stub_call && isa != Isa::Thumb2 => Err(
            "the stubs record 32 bits of a method's address, and this build allows wide ones: compile \
             with HINDSIGHT_TRACE_POINTS=inline"
                .to_owned(),
        ),
        Isa::X86_64 => x86_64::emit(spec),
        Isa::Aarch64 => aarch64::emit(spec),
        Isa::Thumb2 => thumb2::emit(spec),
        _ => Err("no such instruction set".to_owned()),
    };
    match emitted {
        Ok((bytes, shared_exit)) => EmittedCode {
            bytes,
            shared_exit: shared_exit
                .and_then(|offset| i32::try_from(offset).ok())
                .unwrap_or(-1),
            error: String::new(),
        },
        Err(error) => EmittedCode {
            bytes: Vec::new(),
            shared_exit: -1,
            error,
        },
    }
}

/// Bytes, and where in them later exits may branch to.
type Emitted = Result<(Vec<u8>, Option<usize>), String>;

fn no_register(isa: &str, number: u8) -> String {
    format!("{isa} has no register {number}")
}

fn no_site(isa: &str, site: Site) -> String {
    format!("{isa} has no trace point of kind {}", site.repr)
}

mod x86_64 {
    use super::{no_register, no_site, Emitted};
    use crate::bridge::ffi::{Site, TracePointSpec};
    use hindsight_codegen_x86_64::{
        emit as emit_inline, emit_stub_call, Kind, Reg, RegSet, StubCall, StubSite, TracePoint,
    };

    const NAME: &str = "x86-64";

    pub(super) fn emit(spec: &TracePointSpec) -> Emitted {
        let inline = |kind, free| {
            let point = TracePoint {
                wide_pointers: cfg!(feature = "wide-method-pointers"),
                free: RegSet::of(free),
                ..TracePoint::new(kind, spec.cursor_offset)
            };
            let code = emit_inline(&point).map_err(|e| e.to_string())?;
            Ok((code.bytes, None))
        };
        // What the inline form may use without saving it: the code generator's visitors see to it.
        let site = match spec.site {
            Site::InlineEntry => {
                let method = Reg::from_number(spec.method_register)
                    .ok_or_else(|| no_register(NAME, spec.method_register))?;
                return inline(Kind::Entry { method }, &[Reg::Rax, Reg::R10]);
            }
            Site::InlineExit if spec.returns_core_value => {
                return inline(Kind::Exit, &[Reg::Rdx, Reg::R10]);
            }
            Site::InlineExit => return inline(Kind::Exit, &[Reg::Rax, Reg::Rdx, Reg::R10]),
            Site::LeafEntry => StubSite::PointerLeafEntry,
            Site::TailExit => StubSite::PointerTailExit,
            Site::LaterExit => StubSite::PointerLaterExit {
                shared_exit: spec.shared_exit,
            },
            other => return Err(no_site(NAME, other)),
        };
        let call = StubCall {
            site,
            // The pointer is tested instead.
            poll_offset: 0,
            stub_offset: spec.stub_offset,
        };
        let code = emit_stub_call(&call).map_err(|e| e.to_string())?;
        Ok((code.bytes, code.shared_exit))
    }
}

mod aarch64 {
    use super::{no_register, no_site, Emitted};
    use crate::bridge::ffi::{Site, TracePointSpec};
    use hindsight_codegen_aarch64::{
        emit as emit_inline, emit_stub_call, Kind, Reg, StubCall, StubSite, TracePoint,
    };

    const NAME: &str = "AArch64";

    pub(super) fn emit(spec: &TracePointSpec) -> Emitted {
        let inline = |kind| {
            let point = TracePoint {
                wide_pointers: cfg!(feature = "wide-method-pointers"),
                ..TracePoint::new(kind, spec.cursor_offset)
            };
            let code = emit_inline(&point).map_err(|e| e.to_string())?;
            Ok((code.bytes, None))
        };
        let site = match spec.site {
            Site::InlineEntry => {
                let method = Reg::from_number(spec.method_register)
                    .ok_or_else(|| no_register(NAME, spec.method_register))?;
                return inline(Kind::Entry { method });
            }
            Site::InlineExit => return inline(Kind::Exit),
            Site::LeafEntry => StubSite::PointerLeafEntry,
            Site::TailExit => StubSite::PointerTailExit,
            Site::LaterExit => StubSite::PointerLaterExit {
                shared_exit: spec.shared_exit,
            },
            other => return Err(no_site(NAME, other)),
        };
        let call = StubCall {
            site,
            // The pointer is tested instead.
            poll_offset: 0,
            stub_offset: spec.stub_offset,
        };
        let code = emit_stub_call(&call).map_err(|e| e.to_string())?;
        Ok((code.bytes, code.shared_exit))
    }
}

mod thumb2 {
    use super::{no_register, no_site, Emitted};
    use crate::bridge::ffi::{Site, TracePointSpec};
    use hindsight_codegen_thumb2::{
        emit as emit_inline, emit_stub_call, Kind, Reg, RegSet, StubCall, StubSite, TracePoint,
    };

    const NAME: &str = "Thumb-2";

    pub(super) fn emit(spec: &TracePointSpec) -> Emitted {
        // What the code generator's visitors keep free, with lr saved in the frame.
        let inline = |kind, free| {
            let point = TracePoint {
                free: RegSet::of(free),
                ..TracePoint::new(kind, spec.cursor_offset)
            };
            let code = emit_inline(&point).map_err(|e| e.to_string())?;
            Ok((code.bytes, None))
        };
        let site = match spec.site {
            Site::InlineEntry => {
                let method = Reg::from_number(spec.method_register)
                    .ok_or_else(|| no_register(NAME, spec.method_register))?;
                return inline(Kind::Entry { method }, &[Reg::R4, Reg::Ip, Reg::Lr]);
            }
            Site::InlineExit => return inline(Kind::Exit, &[Reg::R2, Reg::R3, Reg::Ip]),
            Site::LeafEntry => StubSite::PointerLeafEntry,
            Site::TailExit => StubSite::PointerTailExit,
            Site::FramedExit => StubSite::PointerFramedExit,
            other => return Err(no_site(NAME, other)),
        };
        let call = StubCall {
            site,
            // The pointer is tested instead.
            poll_offset: 0,
            stub_offset: spec.stub_offset,
        };
        let code = emit_stub_call(&call).map_err(|e| e.to_string())?;
        Ok((code.bytes, None))
    }
}

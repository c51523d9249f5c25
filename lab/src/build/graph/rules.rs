// SPDX-License-Identifier: Apache-2.0
//! The rules of the graph: how each kind of step is executed.

use super::state::Graph;
use crate::build::ninja::Writer;
use crate::build::sanitize;
use crate::spec::Flags;
use crate::toolchain::target_flags;

impl Graph<'_> {
    /// Writes the flags as variables, and the rules.
    pub(super) fn rules(&mut self) {
        let (spec, isa, out) = (self.spec, self.isa, &self.out);
        let (cxx, cc) = (spec.cxx(), spec.cc());
        let is_sanitized = self.variant.is_sanitized();
        let adapted = |flags: String| match is_sanitized {
            true => sanitize::flags(&flags),
            false => flags,
        };
        let n = &mut self.ninja;
        for flags in Flags::ALL {
            let (of_cxx, of_c) = (flags.cxx(spec, isa, out), flags.c(spec, isa, out));
            n.variable(&format!("cxx_{}", flags.name()), &adapted(of_cxx));
            n.variable(&format!("c_{}", flags.name()), &adapted(of_c));
        }
        n.variable("asm_art", &adapted(Flags::Art.assembly(spec, isa, out)));
        let depfile = [("depfile", "$out.d"), ("deps", "gcc")];
        let rule = |n: &mut Writer, name: &str, compiler: &str| {
            let command = format!("ccache {compiler} -MD -MF $out.d $flags -c $in -o $out");
            let described = [depfile[0], depfile[1], ("description", "compile $in")];
            n.rule(name, &command, &described);
        };
        rule(n, "cxx", &cxx);
        rule(n, "cc", &cc);
        // The compiler cache identifies a precompiled header by the checksum beside it. The header itself contains
        // absolute paths, so that the variants could not share the objects compiled with it.
        n.rule(
            "precompile",
            &format!(
                "{cxx} -MD -MF $out.d $flags -Xclang -fno-pch-timestamp -fpch-instantiate-templates \
                 -x c++-header $in -o $out && \
                 {cxx} $flags -x c++-header -E $in | sha256sum > $out.sum"
            ),
            &[depfile[0], depfile[1], ("description", "precompile $in")],
        );
        n.rule(
            "asm_text",
            &format!("{cxx} -MD -MF $out.d $flags -S $in -o $out"),
            &[depfile[0], depfile[1], ("description", "compile $in")],
        );
        // An unchanged header keeps its time, so that nothing is rebuilt for it.
        let keep = "if cmp -s $out.new $out; then rm $out.new; else mv $out.new $out; fi";
        n.rule(
            "asm_header",
            &format!("python3 src/art/tools/cpp-define-generator/make_header.py $in > $out.new && {keep}"),
            &[("restat", "1"), ("description", "generate $out")],
        );
        n.rule(
            "mterp",
            "python3 src/art/runtime/interpreter/mterp/gen_mterp.py $out $in",
            &[("description", "generate $out")],
        );
        n.rule(
            "operator_out",
            &format!(
                "python3 src/art/tools/generate_operator_out.py $dir $in > $out.new && {keep}"
            ),
            &[("restat", "1"), ("description", "generate $out")],
        );
        let linker = match target_flags(spec, isa) {
            _ if is_sanitized => format!("{cxx} -fuse-ld=lld {}", sanitize::FLAG),
            target if target.is_empty() => format!("{cxx} -fuse-ld=lld"),
            target => format!("{cxx} {target} -fuse-ld=lld"),
        };
        n.rule(
            "shared",
            &format!("{linker} -shared -Wl,-soname,$soname -o $out $in $ldflags"),
            &[("description", "link $out")],
        );
        n.rule(
            "program",
            &format!("{linker} -o $out $in $ldflags"),
            &[("description", "link $out")],
        );
        n.rule(
            "link",
            "ln -sf $target $out",
            &[("description", "link $out")],
        );
    }
}

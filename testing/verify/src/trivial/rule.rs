// SPDX-License-Identifier: Apache-2.0
//! The rule by which a method is trivial.

use super::listing::{Instruction, Method};

/// The size of the largest trivial method, in code units.
const LARGEST: usize = 16;

/// What an instruction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    /// Nothing that takes long.
    Little,
    Return,
    /// Goes to this place, always or perhaps.
    Jump(usize),
    Branch(usize),
    Call,
    /// Something that may take long, or that the rule does not know.
    Much,
}

/// The beginnings of the names of instructions that take no time worth mentioning, and access nothing but registers,
/// objects and arrays.
const LITTLE: [&str; 31] = [
    "add-",
    "aget",
    "and-",
    "aput",
    "array-length",
    "check-cast",
    "cmp",
    "const/",
    "const-wide",
    "div-",
    "double-to-",
    "float-to-",
    "iget",
    "int-to-",
    "iput",
    "long-to-",
    "move/",
    "move-object",
    "move-result",
    "move-wide",
    "mul-",
    "neg-",
    "nop",
    "not-",
    "or-",
    "rem-",
    "rsub-int",
    "shl-",
    "shr-",
    "sub-",
    "xor-",
];

fn does(instruction: &Instruction, class: &str) -> Does {
    let name = instruction.name.as_str();
    let operands = instruction.operands.as_str();
    let target = || {
        let last = operands.rsplit(", ").next().unwrap_or(operands);
        usize::from_str_radix(last, 16).ok()
    };
    if name.starts_with("return") {
        Does::Return
    } else if name.starts_with("goto") {
        target().map_or(Does::Much, Does::Jump)
    } else if name.starts_with("if-") {
        target().map_or(Does::Much, Does::Branch)
    } else if name.starts_with("invoke-direct")
        && operands.contains(", Ljava/lang/Object;.<init>:()V")
    {
        Does::Little
    } else if name.starts_with("invoke-polymorphic") || name.starts_with("invoke-custom") {
        Does::Much
    } else if name.starts_with("invoke-") {
        Does::Call
    } else if name.starts_with("sget") || name.starts_with("sput") {
        let field = operands.split_once(", ").map_or("", |(_, field)| field);
        let own = field
            .strip_prefix(class)
            .is_some_and(|rest| rest.starts_with('.'));
        if own {
            Does::Little
        } else {
            Does::Much
        }
    } else if name == "move"
        || name == "const"
        || name.starts_with("ushr-")
        || LITTLE.iter().any(|start| name.starts_with(start))
    {
        Does::Little
    } else {
        Does::Much
    }
}

/// Whether the code from `place` on reaches a return before any branch.
fn returns(method: &Method, place: usize) -> bool {
    let from = method
        .code
        .iter()
        .skip_while(|instruction| instruction.at < place);
    for instruction in from {
        match does(instruction, &method.class) {
            Does::Return => return true,
            Does::Little | Does::Call => {}
            Does::Jump(_) | Does::Branch(_) | Does::Much => return false,
        }
    }
    false
}

/// Whether a method is trivial.
pub(super) fn is_trivial(method: &Method) -> bool {
    if method.size > LARGEST || method.catches {
        return false;
    }
    let (mut calls, mut branches) = (0, 0);
    for instruction in &method.code {
        match does(instruction, &method.class) {
            Does::Little | Does::Return => {}
            Does::Call => calls += 1,
            Does::Branch(to) if to > instruction.at => branches += 1,
            // Several returns that are one, further up.
            Does::Jump(to) if to > instruction.at || to < instruction.at && returns(method, to) => {
                branches += 1
            }
            Does::Branch(_) | Does::Jump(_) | Does::Much => return false,
        }
    }
    let is_bridge = method.flags.iter().any(|flag| flag == "BRIDGE");
    calls == 0 || is_bridge && calls == 1 && branches == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A method of the class `La/B;` with this code: lines of a place and an instruction.
    fn method(code: &str) -> Method {
        let code: Vec<Instruction> = code
            .lines()
            .map(|line| {
                let mut words = line.trim().splitn(3, ' ');
                let mut word = || words.next().unwrap_or_default().to_owned();
                let at = usize::from_str_radix(&word(), 16).unwrap();
                Instruction {
                    at,
                    name: word(),
                    operands: word(),
                }
            })
            .collect();
        Method {
            class: "La/B;".to_owned(),
            size: code.last().unwrap().at + 1,
            code,
            ..Method::default()
        }
    }

    fn is(code: &str) -> bool {
        is_trivial(&method(code))
    }

    #[test]
    fn getters_setters_and_constructors_are_trivial() {
        assert!(is("0 iget-object v0, v1, La/B;.x:I\n2 return-object v0"));
        assert!(is("0 iput v1, v0, La/B;.x:I\n2 return-void"));
        assert!(is(
            "0 invoke-direct {v0}, Ljava/lang/Object;.<init>:()V\n3 return-void"
        ));
        assert!(is("0 aget v0, v1, v2\n2 ushr-int/lit8 v0, v0, #int 3\n4 xor-int/2addr v0, v1\n5 return v0"));
        assert!(is(
            "0 iget-object v0, v1, La/B;.x:La/C;\n2 check-cast v0, La/D;\n4 return-object v0"
        ));
    }

    #[test]
    fn what_may_take_long_is_not() {
        for code in [
            "0 invoke-static {}, La/B;.f:()V\n3 return-void",
            "0 invoke-direct {v0}, La/Base;.<init>:()V\n3 return-void",
            "0 new-instance v0, La/B;\n2 return-object v0",
            "0 const-string v0, \"x\"\n2 return-object v0",
            "0 const-class v0, La/B;\n2 return-object v0",
            "0 instance-of v0, v0, La/B;\n2 return v0",
            "0 monitor-enter v0\n1 return-void",
            "0 throw v0",
            "0 packed-switch v0, 00000003\n3 return-void",
            "0 new-array v0, v0, [I\n2 return-object v0",
            "0 an-instruction-of-tomorrow v0\n2 return-object v0",
        ] {
            assert!(!is(code), "{code}");
        }
    }

    #[test]
    fn static_fields_of_the_class_itself_need_no_initializer() {
        assert!(is("0 sget v0, La/B;.x:I\n2 return v0"));
        assert!(!is("0 sget v0, La/B$C;.x:I\n2 return v0"));
        assert!(!is("0 sput v0, La/C;.x:I\n2 return-void"));
    }

    #[test]
    fn a_branch_must_not_make_a_loop() {
        assert!(is("0 if-eqz v0, 0003\n2 const/4 v0, #int 1\n3 return v0"));
        // The second return is the first one.
        assert!(is("0 if-eqz v0, 0004\n2 const/4 v0, #int 1\n3 return v0\n4 const/4 v0, #int 0\n5 goto 0003"));
        assert!(!is(
            "0 iget v0, v1, La/B;.x:I\n2 if-eqz v0, 0000\n4 return v0"
        ));
        assert!(!is("0 if-eqz v0, 0003\n2 goto 0000\n3 return v0"));
        assert!(!is("0 goto/32 0000"));
    }

    #[test]
    fn a_bridge_may_call() {
        let code = "0 check-cast v1, La/B;\n2 invoke-virtual {v0, v1}, La/B;.f:(La/B;)I\n5 move-result v0\n6 return v0";
        let mut bridge = method(code);
        assert!(!is_trivial(&bridge));
        bridge.flags.push("BRIDGE".to_owned());
        assert!(is_trivial(&bridge));
        let mut two = method(&format!(
            "0 invoke-static {{}}, La/B;.g:()V\n{}",
            code.replacen("0 check", "3 check", 1)
        ));
        two.flags.push("BRIDGE".to_owned());
        assert!(!is_trivial(&two));
    }

    #[test]
    fn size_and_try_blocks_count() {
        let mut getter = method("0 iget-object v0, v1, La/B;.x:I\n2 return-object v0");
        getter.size = 17;
        assert!(!is_trivial(&getter));
        getter.size = 16;
        assert!(is_trivial(&getter));
        getter.catches = true;
        assert!(!is_trivial(&getter));
    }
}

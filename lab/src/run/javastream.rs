// SPDX-License-Identifier: Apache-2.0
//! Java constants for `ProtoOutputStream` from `.proto` files.
//!
//! Framework classes write their state (`Looper.writeToProto` and its like) with field identifiers such as
//! `LooperProto.THREAD_NAME`: one `long` that holds the field's number, type and whether it is repeated. On a
//! device's build, AOSP's protoc plug-in "javastream" generates them. This generator supports flat messages only, which
//! are enough for the lab, and refuses others.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{FieldDescriptorProto, FileDescriptorProto};

/// `ProtoStream.FIELD_TYPE_SHIFT`; the types have the numbers of `descriptor.proto`.
const TYPE_SHIFT: u32 = 32;
/// `ProtoStream.FIELD_COUNT_SHIFT`.
const COUNT_SHIFT: u32 = 40;
/// `ProtoStream.FIELD_COUNT_SINGLE >> COUNT_SHIFT`.
const COUNT_SINGLE: u64 = 1;
/// `ProtoStream.FIELD_COUNT_REPEATED >> COUNT_SHIFT`.
const COUNT_REPEATED: u64 = 2;

/// Why no constants were generated.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Not a `.proto` file.
    #[error("{file}: {source}")]
    Syntax {
        /// The file's name.
        file: String,
        /// The place and the mistake.
        source: Box<protox_parse::ParseError>,
    },
    /// A construct that this generator does not support.
    #[error("{file}: {what}: only flat messages of scalars and messages are supported")]
    Unsupported {
        /// The file's name.
        file: String,
        /// The construct.
        what: String,
    },
}

/// Generates the classes for a set of `.proto` files, given as (name, contents); imports are looked up in the
/// set only. Returns (path of the Java file below the source folder, contents), sorted by path.
pub(crate) fn generate(files: &[(String, String)]) -> Result<BTreeMap<String, String>, Error> {
    let mut parsed = Vec::new();
    for (name, source) in files {
        let file = protox_parse::parse(name, source).map_err(|source| Error::Syntax {
            file: name.clone(),
            source: Box::new(source),
        })?;
        parsed.push(file);
    }
    let messages: Vec<String> = parsed
        .iter()
        .flat_map(|file| {
            file.message_type
                .iter()
                .map(|message| message.name().to_owned())
        })
        .collect();

    let mut classes = BTreeMap::new();
    for file in &parsed {
        let unsupported = |what: String| Error::Unsupported {
            file: file.name().to_owned(),
            what,
        };
        if let Some(declared) = file.enum_type.first() {
            return Err(unsupported(format!("enum {}", declared.name())));
        }
        for message in &file.message_type {
            if !message.nested_type.is_empty() || !message.enum_type.is_empty() {
                return Err(unsupported(format!(
                    "{} has types inside it",
                    message.name()
                )));
            }
            let mut class = format!(
                "// Generated from {}.\npackage {};\n\npublic final class {} {{\n",
                file.name(),
                file.package(),
                message.name()
            );
            for field in &message.field {
                let id = field_id(field, &messages).ok_or_else(|| {
                    unsupported(format!("field {}.{}", message.name(), field.name()))
                })?;
                let _ = writeln!(
                    class,
                    "    public static final long {} = {id:#018x}L;",
                    field.name().to_uppercase()
                );
            }
            class.push_str("}\n");
            classes.insert(java_path(file, message.name()), class);
        }
    }
    Ok(classes)
}

fn java_path(file: &FileDescriptorProto, message: &str) -> String {
    format!("{}/{message}.java", file.package().replace('.', "/"))
}

fn field_id(field: &FieldDescriptorProto, messages: &[String]) -> Option<u64> {
    // The parser does not resolve names, so a field of a message's type has a type name, but no type.
    let kind = match field.r#type {
        Some(kind) => Type::try_from(kind).ok()?,
        None if messages.iter().any(|name| name == field.type_name()) => Type::Message,
        None => return None,
    };
    let count = match field.label() {
        Label::Repeated => COUNT_REPEATED,
        Label::Optional | Label::Required => COUNT_SINGLE,
    };
    let number = u64::try_from(field.number()).ok()?;
    Some(count << COUNT_SHIFT | (kind as u64) << TYPE_SHIFT | number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUE: &str = r#"
        syntax = "proto2";
        package android.os;
        import "frameworks/base/core/proto/android/os/message.proto";
        message MessageQueueProto {
            // As in AOSP.
            repeated MessageProto messages = 1;
            optional bool is_polling_locked = 2;
        }
    "#;
    const MESSAGE: &str = r#"
        syntax = "proto2";
        package android.os;
        message MessageProto {
            option (.android.msg_privacy).dest = DEST_AUTOMATIC;
            optional int64 when = 1;
            optional string obj = 6 [ (.android.privacy).dest = DEST_EXPLICIT ];
        }
    "#;

    fn files(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter()
            .map(|(name, source)| ((*name).to_owned(), (*source).to_owned()))
            .collect()
    }

    /// Expected values: `ProtoStream`'s documented layout, by hand.
    #[test]
    fn field_ids_hold_count_type_and_number() {
        let classes = generate(&files(&[
            ("queue.proto", QUEUE),
            ("message.proto", MESSAGE),
        ]))
        .unwrap();
        let queue = &classes["android/os/MessageQueueProto.java"];
        assert!(queue.contains("package android.os;"));
        assert!(
            queue.contains("long MESSAGES = 0x0000020b00000001L;"),
            "{queue}"
        );
        assert!(
            queue.contains("long IS_POLLING_LOCKED = 0x0000010800000002L;"),
            "{queue}"
        );
        let message = &classes["android/os/MessageProto.java"];
        assert!(
            message.contains("long WHEN = 0x0000010300000001L;"),
            "{message}"
        );
        assert!(
            message.contains("long OBJ = 0x0000010900000006L;"),
            "{message}"
        );
    }

    #[test]
    fn an_unknown_field_type_is_named() {
        let error = generate(&files(&[("queue.proto", QUEUE)]))
            .unwrap_err()
            .to_string();
        assert!(error.contains("MessageQueueProto.messages"), "{error}");
    }

    #[test]
    fn a_syntax_error_names_the_file() {
        let error = generate(&files(&[("broken.proto", "message {")]))
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("broken.proto: "), "{error}");
    }
}

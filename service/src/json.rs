// SPDX-License-Identifier: Apache-2.0
//! Values as one line of JSON. Only for the service's own types: numbers, texts, lists, maps and structs.

use std::fmt::{self, Display};

use serde::ser::{
    Impossible, SerializeMap, SerializeSeq, SerializeStruct, SerializeTuple, Serializer,
};
use serde::Serialize;

use crate::text::quoted;

/// A type that JSON has nothing for.
#[derive(Debug)]
struct NoJson(String);

impl Display for NoJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoJson {}

impl serde::ser::Error for NoJson {
    fn custom<T: Display>(message: T) -> Self {
        NoJson(message.to_string())
    }
}

/// The value as JSON; a value that JSON has nothing for is the text that says so.
pub(crate) fn to_string(value: &impl Serialize) -> String {
    text(value).unwrap_or_else(|e| quoted(&e.0))
}

fn text<T: Serialize + ?Sized>(value: &T) -> Result<String, NoJson> {
    value.serialize(Json)
}

struct Json;

/// Parts with commas between them, in brackets.
struct Parts {
    text: String,
    is_empty: bool,
    end: char,
}

impl Parts {
    fn new(start: char, end: char) -> Self {
        Parts {
            text: start.into(),
            is_empty: true,
            end,
        }
    }

    fn add(&mut self, part: &str) {
        if !std::mem::take(&mut self.is_empty) {
            self.text.push(',');
        }
        self.text.push_str(part);
    }

    fn finish(mut self) -> String {
        self.text.push(self.end);
        self.text
    }
}

impl SerializeSeq for Parts {
    type Ok = String;
    type Error = NoJson;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), NoJson> {
        self.add(&text(value)?);
        Ok(())
    }

    fn end(self) -> Result<String, NoJson> {
        Ok(self.finish())
    }
}

impl SerializeTuple for Parts {
    type Ok = String;
    type Error = NoJson;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), NoJson> {
        SerializeSeq::serialize_element(self, value)
    }

    fn end(self) -> Result<String, NoJson> {
        Ok(self.finish())
    }
}

impl SerializeMap for Parts {
    type Ok = String;
    type Error = NoJson;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), NoJson> {
        let key = text(key)?;
        // Keys are texts.
        let key = match key.starts_with('"') {
            true => key,
            false => quoted(&key),
        };
        self.add(&key);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), NoJson> {
        self.text.push(':');
        self.text.push_str(&text(value)?);
        Ok(())
    }

    fn end(self) -> Result<String, NoJson> {
        Ok(self.finish())
    }
}

impl SerializeStruct for Parts {
    type Ok = String;
    type Error = NoJson;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        key: &'static str,
        value: &T,
    ) -> Result<(), NoJson> {
        self.add(&format!("{}:{}", quoted(key), text(value)?));
        Ok(())
    }

    fn end(self) -> Result<String, NoJson> {
        Ok(self.finish())
    }
}

type Result2 = Result<String, NoJson>;
type No = Impossible<String, NoJson>;

fn no<T>(what: &str) -> Result<T, NoJson> {
    Err(NoJson(format!("{what} cannot be written as JSON")))
}

impl Serializer for Json {
    type Ok = String;
    type Error = NoJson;
    type SerializeSeq = Parts;
    type SerializeTuple = Parts;
    type SerializeTupleStruct = No;
    type SerializeTupleVariant = No;
    type SerializeMap = Parts;
    type SerializeStruct = Parts;
    type SerializeStructVariant = No;

    fn serialize_bool(self, v: bool) -> Result2 {
        Ok(v.to_string())
    }
    fn serialize_i8(self, v: i8) -> Result2 {
        Ok(v.to_string())
    }
    fn serialize_i16(self, v: i16) -> Result2 {
        Ok(v.to_string())
    }
    fn serialize_i32(self, v: i32) -> Result2 {
        Ok(v.to_string())
    }
    fn serialize_i64(self, v: i64) -> Result2 {
        Ok(v.to_string())
    }
    fn serialize_u8(self, v: u8) -> Result2 {
        Ok(v.to_string())
    }
    fn serialize_u16(self, v: u16) -> Result2 {
        Ok(v.to_string())
    }
    fn serialize_u32(self, v: u32) -> Result2 {
        Ok(v.to_string())
    }
    fn serialize_u64(self, v: u64) -> Result2 {
        Ok(v.to_string())
    }
    fn serialize_f32(self, v: f32) -> Result2 {
        self.serialize_f64(v.into())
    }
    fn serialize_f64(self, v: f64) -> Result2 {
        match v.is_finite() {
            true => Ok(v.to_string()),
            false => Ok("null".to_owned()),
        }
    }
    fn serialize_char(self, v: char) -> Result2 {
        Ok(quoted(v.encode_utf8(&mut [0; 4])))
    }
    fn serialize_str(self, v: &str) -> Result2 {
        Ok(quoted(v))
    }
    fn serialize_bytes(self, _: &[u8]) -> Result2 {
        no("bytes")
    }
    fn serialize_none(self) -> Result2 {
        self.serialize_unit()
    }
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result2 {
        text(value)
    }
    fn serialize_unit(self) -> Result2 {
        Ok("null".to_owned())
    }
    fn serialize_unit_struct(self, _: &'static str) -> Result2 {
        self.serialize_unit()
    }
    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result2 {
        Ok(quoted(variant))
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result2 {
        text(value)
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result2 {
        Ok(format!("{{{}:{}}}", quoted(variant), text(value)?))
    }
    fn serialize_seq(self, _: Option<usize>) -> Result<Parts, NoJson> {
        Ok(Parts::new('[', ']'))
    }
    fn serialize_tuple(self, _: usize) -> Result<Parts, NoJson> {
        Ok(Parts::new('[', ']'))
    }
    fn serialize_tuple_struct(self, name: &'static str, _: usize) -> Result<No, NoJson> {
        no(name)
    }
    fn serialize_tuple_variant(
        self,
        name: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<No, NoJson> {
        no(name)
    }
    fn serialize_map(self, _: Option<usize>) -> Result<Parts, NoJson> {
        Ok(Parts::new('{', '}'))
    }
    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Parts, NoJson> {
        Ok(Parts::new('{', '}'))
    }
    fn serialize_struct_variant(
        self,
        name: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<No, NoJson> {
        no(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[derive(Serialize, PartialEq, Eq, PartialOrd, Ord)]
    #[serde(rename_all = "kebab-case")]
    enum Kind {
        NotWritten,
    }

    #[derive(Serialize)]
    struct Sample {
        name: &'static str,
        list: Vec<(u32, f64)>,
        map: BTreeMap<Kind, u64>,
        ids: BTreeMap<u32, Option<bool>>,
        bytes: Bytes,
    }

    struct Bytes;

    impl Serialize for Bytes {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_bytes(&[1])
        }
    }

    #[derive(Serialize)]
    struct Good {
        name: &'static str,
        list: Vec<(u32, f64)>,
        map: BTreeMap<Kind, u64>,
        ids: BTreeMap<u32, Option<bool>>,
    }

    #[test]
    fn values_are_json_or_say_what_they_are() {
        let map = || BTreeMap::from([(Kind::NotWritten, 3)]);
        let ids = || BTreeMap::from([(7, Some(true)), (8, None)]);
        let list = || vec![(1, 0.5), (2, f64::NAN)];
        let name = "a \"b\"\n";
        let good = Good {
            name,
            list: list(),
            map: map(),
            ids: ids(),
        };
        assert_eq!(
            to_string(&good),
            r#"{"name":"a \"b\"\n","list":[[1,0.5],[2,null]],"map":{"not-written":3},"ids":{"7":true,"8":null}}"#
        );
        let sample = Sample {
            name,
            list: list(),
            map: map(),
            ids: ids(),
            bytes: Bytes,
        };
        assert_eq!(to_string(&sample), "\"bytes cannot be written as JSON\"");
    }
}

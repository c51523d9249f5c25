// SPDX-License-Identifier: Apache-2.0
//! A dex file: its tables of names, and the code of its methods. Anything may be in the file: what is out of range is `None`.

/// Names a field.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct FieldName {
    /// The class, as people write it: `com.example.Outer$Inner`.
    pub class: String,
    /// The field.
    pub name: String,
    /// Its type's descriptor: `Z`.
    pub descriptor: String,
}

/// Names a method.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct MethodName {
    /// The class, as people write it.
    pub class: String,
    /// The method.
    pub name: String,
    /// Its signature: `(I)V`.
    pub signature: String,
}

/// The code of a method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// The instructions, in units of 16 bits.
    pub units: Vec<u16>,
}

/// A dex file.
#[derive(Clone, Debug)]
pub struct Dex {
    bytes: Vec<u8>,
    strings: Table,
    types: Table,
    protos: Table,
    fields: Table,
    methods: Table,
    classes: Table,
}

/// A table of the header: its number of elements and their offset.
#[derive(Clone, Copy, Debug)]
struct Table {
    count: u32,
    offset: u32,
    /// Bytes of an element.
    size: u32,
}

impl Table {
    fn at(&self, index: u32) -> Option<usize> {
        if index >= self.count {
            return None;
        }
        let offset = u64::from(self.offset) + u64::from(index) * u64::from(self.size);
        usize::try_from(offset).ok()
    }
}

impl Dex {
    /// Reads a file's header; `None` if it is no dex file.
    pub fn new(bytes: Vec<u8>) -> Option<Self> {
        // "dex\n", a version of three digits, 0.
        let magic = bytes.get(..8)?;
        if &magic[..4] != b"dex\n" || magic[7] != 0 {
            return None;
        }
        let table = |at: usize, size: u32| {
            Some(Table {
                count: u32_at(&bytes, at)?,
                offset: u32_at(&bytes, at + 4)?,
                size,
            })
        };
        let (strings, types, protos) = (table(56, 4)?, table(64, 4)?, table(72, 12)?);
        let (fields, methods, classes) = (table(80, 8)?, table(88, 8)?, table(96, 32)?);
        Some(Dex {
            bytes,
            strings,
            types,
            protos,
            fields,
            methods,
            classes,
        })
    }

    fn u16(&self, at: usize) -> Option<u16> {
        let bytes = self.bytes.get(at..at.checked_add(2)?)?;
        Some(u16::from_le_bytes(bytes.try_into().ok()?))
    }

    fn u32(&self, at: usize) -> Option<u32> {
        u32_at(&self.bytes, at)
    }

    fn offset(&self, at: usize) -> Option<usize> {
        self.u32(at).and_then(|offset| usize::try_from(offset).ok())
    }

    /// Reads a number of the variable length of LEB128, and moves behind it.
    fn uleb128(&self, at: &mut usize) -> Option<u32> {
        let mut number = 0;
        for shift in (0..35).step_by(7) {
            let byte = *self.bytes.get(*at)?;
            *at += 1;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return u32::try_from(number).ok();
            }
        }
        None
    }

    fn string(&self, index: u32) -> Option<String> {
        let mut at = self.offset(self.strings.at(index)?)?;
        // The number of UTF-16 units; the bytes end with 0.
        self.uleb128(&mut at)?;
        let rest = self.bytes.get(at..)?;
        let end = rest.iter().position(|&byte| byte == 0)?;
        Some(String::from_utf8_lossy(&rest[..end]).into_owned())
    }

    fn descriptor(&self, of_type: u32) -> Option<String> {
        self.string(self.u32(self.types.at(of_type)?)?)
    }

    /// The field with this index.
    pub fn field(&self, index: u32) -> Option<FieldName> {
        let at = self.fields.at(index)?;
        Some(FieldName {
            class: class_name(&self.descriptor(self.u16(at)?.into())?),
            descriptor: self.descriptor(self.u16(at + 2)?.into())?,
            name: self.string(self.u32(at + 4)?)?,
        })
    }

    /// The method with this index.
    pub fn method(&self, index: u32) -> Option<MethodName> {
        let at = self.methods.at(index)?;
        Some(MethodName {
            class: class_name(&self.descriptor(self.u16(at)?.into())?),
            signature: self.signature(self.u16(at + 2)?.into())?,
            name: self.string(self.u32(at + 4)?)?,
        })
    }

    fn signature(&self, proto: u32) -> Option<String> {
        let at = self.protos.at(proto)?;
        let mut signature = String::from("(");
        let parameters = self.offset(at + 8)?;
        if parameters != 0 {
            for i in 0..usize::try_from(self.u32(parameters)?).ok()? {
                let of_type = self.u16(parameters.checked_add(4 + 2 * i)?)?;
                signature += &self.descriptor(of_type.into())?;
            }
        }
        Some(signature + ")" + &self.descriptor(self.u32(at + 4)?)?)
    }

    /// The code of a method that this file defines; `None` if it does not, or the method has no code.
    pub fn code(&self, method: &MethodName) -> Option<Code> {
        (0..self.classes.count)
            .map_while(|i| self.classes.at(i).filter(|&at| at < self.bytes.len()))
            .filter(|&at| self.class_of(at).is_some_and(|class| class == method.class))
            .find_map(|at| self.code_in_class(at, method))
    }

    fn class_of(&self, definition: usize) -> Option<String> {
        Some(class_name(&self.descriptor(self.u32(definition)?)?))
    }

    fn code_in_class(&self, definition: usize, method: &MethodName) -> Option<Code> {
        let mut at = self.offset(definition + 24).filter(|&at| at != 0)?;
        let mut counts = [0; 4];
        for count in &mut counts {
            *count = self.uleb128(&mut at)?;
        }
        let [static_fields, instance_fields, direct_methods, virtual_methods] = counts;
        for _ in 0..u64::from(static_fields) + u64::from(instance_fields) {
            self.uleb128(&mut at)?;
            self.uleb128(&mut at)?;
        }
        for methods in [direct_methods, virtual_methods] {
            let mut index = 0_u32;
            for _ in 0..methods {
                // Its distance from the one before, access flags, the offset of its code.
                index = index.checked_add(self.uleb128(&mut at)?)?;
                self.uleb128(&mut at)?;
                let code = self.uleb128(&mut at)?;
                if code != 0 && self.method(index).as_ref() == Some(method) {
                    return self.code_at(usize::try_from(code).ok()?);
                }
            }
        }
        None
    }

    fn code_at(&self, at: usize) -> Option<Code> {
        let count = usize::try_from(self.u32(at.checked_add(12)?)?).ok()?;
        let start = at.checked_add(16)?;
        let bytes = self
            .bytes
            .get(start..start.checked_add(count.checked_mul(2)?)?)?;
        let units = bytes
            .chunks_exact(2)
            .map(|b| u16::from_le_bytes([b[0], b[1]]));
        Some(Code {
            units: units.collect(),
        })
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

/// `com.example.Flag` of `Lcom/example/Flag;`; other descriptors are left as they are.
fn class_name(descriptor: &str) -> String {
    let inner = descriptor
        .strip_prefix('L')
        .and_then(|d| d.strip_suffix(';'));
    inner.map_or_else(|| descriptor.to_owned(), |name| name.replace('/', "."))
}

// SPDX-License-Identifier: Apache-2.0
//! Parquet files, column by column.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;
use std::sync::Arc;

use hindsight_analysis::{Cost, Used};
use parquet::basic::{Compression, Encoding};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;

use crate::output::Output;

/// Rows of a row group. One column of a group is in memory at a time, 8 bytes per row.
pub(crate) const GROUP_ROWS: usize = 1 << 20;

/// A complete file that has no name yet, and its name.
pub(crate) type Finished = (String, Output);

/// A file that is being written.
pub(crate) struct Table {
    name: String,
    writer: SerializedFileWriter<BufWriter<File>>,
    output: Output,
}

impl Table {
    pub(crate) fn create(folder: &Path, schema: &str) -> Result<Self, ParquetError> {
        let schema = Arc::new(parse_message_type(schema)?);
        let name = format!("{}.parquet", schema.name());
        let mut properties = WriterProperties::builder()
            .set_created_by(concat!("hindsight ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_compression(Compression::SNAPPY)
            .set_dictionary_enabled(false)
            .set_statistics_enabled(EnabledStatistics::Chunk);
        for column in [
            "slice",
            "start_ns",
            "at_ns",
            "parent",
            "event",
            "begin_event",
        ] {
            // Values that rise in small steps.
            let path = ColumnPath::from(column);
            properties = properties.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
        for column in ["thread", "method", "depth", "kind", "category"] {
            properties = properties.set_column_dictionary_enabled(ColumnPath::from(column), true);
        }
        let output = Output::create_in(folder)?;
        let out = BufWriter::with_capacity(1 << 20, output.file.try_clone()?);
        let writer = SerializedFileWriter::new(out, schema, Arc::new(properties.build()))?;
        Ok(Table {
            name,
            writer,
            output,
        })
    }

    /// Adds rows; `write` writes the columns in the order of the schema.
    pub(crate) fn rows(
        &mut self,
        write: impl FnOnce(&mut Columns<'_>) -> Result<(), ParquetError>,
    ) -> Result<(), ParquetError> {
        let mut columns = Columns {
            group: self.writer.next_row_group()?,
        };
        write(&mut columns)?;
        columns.group.close()?;
        Ok(())
    }

    pub(crate) fn close(self) -> Result<Finished, ParquetError> {
        let out = self.writer.into_inner()?;
        out.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok((self.name, self.output))
    }
}

/// The columns of a row group, one after the other.
pub(crate) struct Columns<'a> {
    group: SerializedRowGroupWriter<'a, BufWriter<File>>,
}

impl Columns<'_> {
    pub(crate) fn write<T: DataType>(
        &mut self,
        values: &[T::T],
        present: Option<&[i16]>,
    ) -> Result<(), ParquetError> {
        let mut column = self
            .group
            .next_column()?
            .ok_or_else(|| ParquetError::General("more columns than the schema has".into()))?;
        column.typed::<T>().write_batch(values, present, None)?;
        column.close()
    }

    pub(crate) fn long(&mut self, values: impl Iterator<Item = u64>) -> Result<(), ParquetError> {
        // Unsigned columns are marked in the schema.
        let values: Vec<i64> = values.map(|v| v as i64).collect();
        self.write::<Int64Type>(&values, None)
    }

    pub(crate) fn int(&mut self, values: impl Iterator<Item = u32>) -> Result<(), ParquetError> {
        let values: Vec<i32> = values.map(|v| v as i32).collect();
        self.write::<Int32Type>(&values, None)
    }

    pub(crate) fn bool(&mut self, values: impl Iterator<Item = bool>) -> Result<(), ParquetError> {
        let values: Vec<bool> = values.collect();
        self.write::<BoolType>(&values, None)
    }

    pub(crate) fn text<'a>(
        &mut self,
        values: impl Iterator<Item = &'a str>,
    ) -> Result<(), ParquetError> {
        let values: Vec<ByteArray> = values.map(ByteArray::from).collect();
        self.write::<ByteArrayType>(&values, None)
    }

    pub(crate) fn optional_long(
        &mut self,
        values: impl Iterator<Item = Option<u64>>,
    ) -> Result<(), ParquetError> {
        let values: Vec<Option<u64>> = values.collect();
        let present: Vec<i16> = values.iter().map(|v| i16::from(v.is_some())).collect();
        let values: Vec<i64> = values.iter().flatten().map(|&v| v as i64).collect();
        self.write::<Int64Type>(&values, Some(&present))
    }

    /// What calls or spans cost, in the columns from `woken_by` on.
    pub(crate) fn costs<'a>(
        &mut self,
        costs: impl Iterator<Item = Option<&'a Cost>>,
    ) -> Result<(), ParquetError> {
        type Get = fn(&Used) -> u64;
        const USED: [Get; 7] = [
            |u| u.cpu_ns,
            |u| u.objects,
            |u| u.bytes,
            |u| u.minor_faults,
            |u| u.major_faults,
            |u| u.voluntary_switches,
            |u| u.involuntary_switches,
        ];
        let costs: Vec<Option<&Cost>> = costs.collect();
        let wakers = costs.iter().map(|c| c.and_then(|c| c.woken_by));
        let present: Vec<i16> = wakers.clone().map(|w| i16::from(w.is_some())).collect();
        let wakers: Vec<i32> = wakers.flatten().map(|w| w as i32).collect();
        self.write::<Int32Type>(&wakers, Some(&present))?;
        self.optional_long(costs.iter().map(|c| c.and_then(|c| c.blocked_ns)))?;
        for get in USED {
            let used = costs.iter().map(|c| c.and_then(|c| c.used.as_ref()));
            self.optional_long(used.map(|u| u.map(get)))?;
        }
        Ok(())
    }

    /// Empty texts are null.
    pub(crate) fn optional_text<'a>(
        &mut self,
        values: impl Iterator<Item = &'a str>,
    ) -> Result<(), ParquetError> {
        let values: Vec<&str> = values.collect();
        let present: Vec<i16> = values.iter().map(|v| i16::from(!v.is_empty())).collect();
        let values = values.into_iter().filter(|v| !v.is_empty());
        let values: Vec<ByteArray> = values.map(ByteArray::from).collect();
        self.write::<ByteArrayType>(&values, Some(&present))
    }
}

/// The error of the file system, if it is one.
pub(crate) fn into_io(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(e) => match e.downcast::<io::Error>() {
            Ok(io) => *io,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}

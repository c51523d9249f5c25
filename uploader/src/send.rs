// SPDX-License-Identifier: Apache-2.0
//! One item: from where the collector has it to its end.

use std::os::unix::fs::FileExt;

use crate::conditions::Conditions;
use crate::error::SendError;
use crate::http::Head;
use crate::item::{Item, Service};
use crate::tls::Collector;

/// Bytes of an item that one request has at most.
const PIECE: u64 = 256 << 10;
/// The collector may have another offset than the last piece led to so often: two uploads of one item may meet.
const MAX_SURPRISES: u32 = 3;

/// How far an item got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The collector has all of it.
    All,
    /// The conditions are not met any more.
    Conditions,
    /// The service says that it may not leave any more.
    Withdrawn,
}

/// Sends the rest of an item. Before each piece, the service must say that the item may still leave.
///
/// # Errors
/// If that fails. What the collector has by then is not sent again.
pub fn send(
    item: &Item,
    service: &Service,
    collector: &Collector,
    conditions: &Conditions,
) -> Result<Sent, SendError> {
    let path = format!("/v1/items/{} HTTP/1.1", item.hash);
    let head = collector.request(&format!("GET {path}"), &[])?;
    let mut at = match head.status {
        404 => 0,
        200 | 201 => offset(item, head)?,
        status => return Err(SendError::Status(status)),
    };
    if head.status == 201 {
        return complete(item, at);
    }
    let mut surprises = 0;
    loop {
        if !conditions.are_met() {
            return Ok(Sent::Conditions);
        }
        if !service.still(item)? {
            return Ok(Sent::Withdrawn);
        }
        let piece = read(item, at)?;
        let expected = at + piece.len() as u64;
        let (kind, total) = (&item.kind, item.bytes);
        let lines = format!(
            "PUT {path}\r\nupload-offset: {at}\r\nupload-length: {total}\r\nhindsight-kind: {kind}"
        );
        let head = collector.request(&lines, &piece)?;
        match head.status {
            201 => return complete(item, offset(item, head)?),
            200 if offset(item, head)? == expected && expected < item.bytes => at = expected,
            200 => return Err(SendError::Protocol("it has not got what it was sent")),
            409 if surprises < MAX_SURPRISES => {
                surprises += 1;
                at = offset(item, head)?;
            }
            status => return Err(SendError::Status(status)),
        }
    }
}

/// The collector says that it has all.
fn complete(item: &Item, offset: u64) -> Result<Sent, SendError> {
    match offset == item.bytes {
        true => Ok(Sent::All),
        false => Err(SendError::Protocol("it is complete, and has not all bytes")),
    }
}

fn offset(item: &Item, head: Head) -> Result<u64, SendError> {
    let offset = head
        .offset
        .ok_or(SendError::Protocol("the offset is missing"))?;
    match offset <= item.bytes {
        true => Ok(offset),
        false => Err(SendError::Protocol(
            "the offset is after the end of the item",
        )),
    }
}

fn read(item: &Item, at: u64) -> Result<Vec<u8>, SendError> {
    let length = (item.bytes - at).min(PIECE);
    let mut piece = vec![0; length as usize];
    item.file
        .read_exact_at(&mut piece, at)
        .map_err(SendError::Service)?;
    Ok(piece)
}

// SPDX-License-Identifier: Apache-2.0
//! The part of HTTP/1.1 that the protocol needs: the head of a response.

/// Longest head of a response, bytes.
pub const MAX_HEAD_BYTES: usize = 8 << 10;

/// The head of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Its status, such as 200.
    pub status: u16,
    /// The bytes of the item that the collector has; `None`: it does not say.
    pub offset: Option<u64>,
}

/// Reads a head. `None`: there must be more of it.
///
/// # Errors
/// If these bytes begin no response of the protocol: why.
pub fn parse_head(bytes: &[u8]) -> Result<Option<Head>, &'static str> {
    const START: &[u8] = b"HTTP/1.1 ";
    let start = &bytes[..bytes.len().min(START.len())];
    if !START.starts_with(start) {
        return Err("the collector does not speak HTTP/1.1");
    }
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        return match bytes.len() >= MAX_HEAD_BYTES {
            true => Err("the head of the response has no end"),
            false => Ok(None),
        };
    };
    if end + 4 > MAX_HEAD_BYTES {
        return Err("the head of the response is too long");
    }
    let text = std::str::from_utf8(&bytes[..end]);
    let text = text.map_err(|_| "the head of the response is no text")?;
    let mut lines = text.split("\r\n");
    let status = lines.next().unwrap_or("");
    let status = status.get(START.len()..START.len() + 3).unwrap_or("");
    let status = number(status).and_then(|n| u16::try_from(n).ok());
    let mut head = Head {
        status: status.ok_or("the response has no status")?,
        offset: None,
    };
    for line in lines {
        let (name, value) = line
            .split_once(':')
            .ok_or("a line of the head has no colon")?;
        if name.eq_ignore_ascii_case("upload-offset") {
            let offset = number(value.trim()).ok_or("the offset is no number")?;
            if head.offset.replace(offset).is_some() {
                return Err("the response has two offsets");
            }
        }
    }
    Ok(Some(head))
}

/// Digits only: no sign, as `parse` would take.
fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_or_refused() {
        let good = b"HTTP/1.1 200 OK\r\nUpload-Offset: 12\r\nx: y\r\n\r\nbody";
        let head = Head {
            status: 200,
            offset: Some(12),
        };
        assert_eq!(parse_head(good), Ok(Some(head)));
        for cut in 0..good.len() - 4 {
            assert_eq!(parse_head(&good[..cut]), Ok(None), "{cut}");
        }
        for bad in [
            "HTTP/1.0 200 OK\r\n\r\n",
            "SSH-2.0",
            "HTTP/1.1 +20 OK\r\n\r\n",
            "HTTP/1.1 20\r\n\r\n",
            "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
            "HTTP/1.1 200 OK\r\nupload-offset: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nupload-offset: 99999999999999999999\r\n\r\n",
            "HTTP/1.1 200 OK\r\nupload-offset: 1\r\nupload-offset: 1\r\n\r\n",
        ] {
            assert!(parse_head(bad.as_bytes()).is_err(), "{bad}");
        }
        let endless = format!("HTTP/1.1 200 OK\r\na: {}", "x".repeat(MAX_HEAD_BYTES));
        assert!(parse_head(endless.as_bytes()).is_err());
        assert!(parse_head(format!("{endless}\r\n\r\n").as_bytes()).is_err());
    }
}

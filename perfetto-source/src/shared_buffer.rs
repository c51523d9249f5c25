// SPDX-License-Identifier: Apache-2.0
//! The memory that packets are handed to traced in: pages with one chunk each.
//!
//! ```text
//! page: state of the chunk (4 bytes), 4 unused bytes, number of the chunk (4), writer (2), number of packets (10 bits) and flags (6),
//!       packets: length as varint, bytes
//! ```

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of a page.
pub const PAGE_BYTES: usize = 16 << 10;
/// Pages.
pub const PAGES: usize = 64;
const BYTES: usize = PAGE_BYTES * PAGES;
const HEADER_BYTES: usize = 16;
/// Longest packet, bytes: it fits into one chunk with its length.
pub const MAX_PACKET_BYTES: usize = PAGE_BYTES - HEADER_BYTES - 4;
/// The most packets in a chunk.
const MAX_PACKETS: u16 = 1023;
/// One chunk in the page.
const LAYOUT_ONE: u32 = 1 << 28;
const FREE: u32 = 0;
const COMPLETE: u32 = 3;

/// The memory, which traced maps as well.
#[derive(Debug)]
pub struct SharedBuffer {
    file: File,
    memory: NonNull<u8>,
}

// SAFETY: the mapping belongs to this value alone, and is not bound to a thread.
unsafe impl Send for SharedBuffer {}

impl SharedBuffer {
    /// Makes the memory. Its size is sealed, as traced demands.
    ///
    /// # Errors
    /// If the system has no memory or descriptor left.
    pub fn new() -> io::Result<Self> {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // Android 10's C library has no function for it.
        // SAFETY: the name is a C string; the result is a new descriptor, or -1.
        let number = unsafe {
            libc::syscall(
                libc::SYS_memfd_create,
                c"hindsight-perfetto".as_ptr(),
                flags,
            )
        };
        if number < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it is a new descriptor, which nobody else has.
        let file = unsafe { File::from_raw_fd(number as RawFd) };
        file.set_len(BYTES as u64)?;
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: takes numbers only.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new mapping of a file of `BYTES` bytes, which cannot shrink any more.
        let memory = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let (null, file) = (std::ptr::null_mut(), file.as_raw_fd());
            libc::mmap(null, BYTES, access, libc::MAP_SHARED, file, 0)
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = NonNull::new(memory.cast()).ok_or_else(io::Error::last_os_error)?;
        Ok(SharedBuffer { file, memory })
    }

    /// The descriptor that traced gets.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    fn state(&self, page: usize) -> &AtomicU32 {
        assert!(page < PAGES, "there are {PAGES} pages");
        // SAFETY: within the mapping, which lives as long as `self`, and aligned to a page. Both sides use atomic accesses.
        unsafe { AtomicU32::from_ptr(self.memory.add(page * PAGE_BYTES).as_ptr().cast()) }
    }

    /// Whether traced has read the page, or never got it.
    pub fn is_free(&self, page: usize) -> bool {
        self.state(page).load(Ordering::Acquire) & 3 == FREE
    }

    /// Completes a free page with these packets. `false`: traced still reads the page.
    pub fn publish(&mut self, page: usize, number: u32, writer: u16, chunk: &Chunk) -> bool {
        if !self.is_free(page) {
            return false;
        }
        let mut header = [0; HEADER_BYTES - 8];
        header[..4].copy_from_slice(&number.to_le_bytes());
        header[4..6].copy_from_slice(&writer.to_le_bytes());
        header[6..].copy_from_slice(&chunk.packets.to_le_bytes());
        assert!(HEADER_BYTES + chunk.bytes.len() <= PAGE_BYTES);
        // SAFETY: the page is within the mapping, and the lengths within the page; traced does not touch a free page.
        unsafe {
            let page = self.memory.add(page * PAGE_BYTES).as_ptr();
            page.add(8).copy_from(header.as_ptr(), header.len());
            let payload = page.add(HEADER_BYTES);
            payload.copy_from(chunk.bytes.as_ptr(), chunk.bytes.len());
            // Zeros are packets without bytes, which the number of packets leaves out.
            payload
                .add(chunk.bytes.len())
                .write_bytes(0, PAGE_BYTES - HEADER_BYTES - chunk.bytes.len());
        }
        self.state(page)
            .store(LAYOUT_ONE | COMPLETE, Ordering::Release);
        true
    }
}

impl Drop for SharedBuffer {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new`, and no reference to it outlives `self`.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), BYTES) };
    }
}

/// Packets that fit into a page.
#[derive(Clone, Debug, Default)]
pub struct Chunk {
    bytes: Vec<u8>,
    packets: u16,
}

impl Chunk {
    /// Adds a packet; `false`: it does not fit any more.
    pub fn push(&mut self, packet: &[u8]) -> bool {
        let needed = packet.len() + 4;
        let has_room = self.bytes.len() + needed <= PAGE_BYTES - HEADER_BYTES;
        if !has_room || self.packets == MAX_PACKETS {
            return false;
        }
        let length = packet.len() as u32;
        // A varint of four bytes, whatever the length, as traced's own library writes it.
        for i in 0..4 {
            let more = if i < 3 { 0x80 } else { 0 };
            self.bytes.push((length >> (7 * i)) as u8 & 0x7f | more);
        }
        self.bytes.extend_from_slice(packet);
        self.packets += 1;
        true
    }

    /// Whether there is no packet.
    pub fn is_empty(&self) -> bool {
        self.packets == 0
    }

    /// Removes all packets.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.packets = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_complete_until_the_other_side_frees_it() {
        let mut buffer = SharedBuffer::new().unwrap();
        let mut chunk = Chunk::default();
        assert!(chunk.push(&[7; 5]));
        assert!(!chunk.push(&[0; MAX_PACKET_BYTES]));
        assert!(buffer.publish(PAGES - 1, 3, 2, &chunk));
        assert!(!buffer.publish(PAGES - 1, 3, 2, &chunk));
        assert!(!buffer.is_free(PAGES - 1));
        assert!(buffer.is_free(0));
        let mut page = vec![0; 32];
        let at = ((PAGES - 1) * PAGE_BYTES) as u64;
        std::os::unix::fs::FileExt::read_exact_at(&buffer.file, &mut page, at).unwrap();
        let expected = [
            0, 0, 0, 16, 0, 0, 0, 0, 3, 0, 0, 0, 2, 0, 1, 0, 0x85, 0x80, 0x80, 0, 7, 7, 7, 7, 7,
        ];
        assert_eq!(page[0], 3);
        assert_eq!(page[1..25], expected[1..]);
        assert!(Chunk::default().push(&[0; MAX_PACKET_BYTES]));
    }

    #[test]
    fn a_chunk_has_no_more_packets_than_its_header_can_say() {
        let mut chunk = Chunk::default();
        let count = (0..2000).take_while(|_| chunk.push(&[])).count();
        assert_eq!(count, 1023);
    }
}

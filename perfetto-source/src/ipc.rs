// SPDX-License-Identifier: Apache-2.0
//! traced's socket for producers: frames of protobuf with their length before them, in both directions.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::messages::{command, frame, frame_length, invalid};
pub use crate::messages::{reason, Command, Frame, MAX_FRAME_BYTES};
use crate::proto::{Fields, Message};
use crate::shared_buffer::{SharedBuffer, PAGES, PAGE_BYTES};

/// traced answers at once, or is stuck.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Commands that wait while another one is carried out; more are a fault of traced.
const MAX_WAITING: usize = 1024;

/// A chunk that was completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// Its page.
    pub page: usize,
    /// The buffer of the session that it belongs to.
    pub buffer: u64,
}

/// A connection to one of traced's sockets.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    received: Vec<u8>,
    service: u64,
    methods: HashMap<String, u64>,
    last_request: u64,
}

impl Client {
    /// Connects to a socket of traced and binds its service: `ProducerPort` or `ConsumerPort`.
    ///
    /// # Errors
    /// If nobody listens, or it is another service.
    pub fn connect(path: &Path, service: &str) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        let mut client = Client {
            stream,
            received: Vec::new(),
            service: 0,
            methods: HashMap::new(),
            last_request: 0,
        };
        let mut bind = Message::new();
        bind.string(1, service);
        let mut frame = Message::new();
        frame.varint(2, 0).message(3, &bind);
        client.write(&frame, None)?;
        match client.read_frame()? {
            Frame::Bound { service, methods } => {
                (client.service, client.methods) = (service, methods);
                Ok(client)
            }
            _ => Err(invalid(&format!(
                "the socket is none of traced for {service}"
            ))),
        }
    }

    /// Calls a method. Returns the number of the request, which its answers have.
    ///
    /// # Errors
    /// If traced has gone, or has no such method.
    pub fn send(
        &mut self,
        method: &str,
        request: &Message,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> io::Result<u64> {
        let Some(id) = self.methods.get(method).copied() else {
            return Err(invalid(&format!("traced has no method {method}")));
        };
        self.last_request += 1;
        let mut invoke = Message::new();
        invoke
            .varint(1, self.service)
            .varint(2, id)
            .message(3, request);
        let mut frame = Message::new();
        frame.varint(2, self.last_request).message(5, &invoke);
        self.write(&frame, descriptor)?;
        Ok(self.last_request)
    }

    fn write(&mut self, frame: &Message, descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let length = frame.as_bytes().len() as u32;
        let mut bytes = length.to_le_bytes().to_vec();
        bytes.extend_from_slice(frame.as_bytes());
        let sent = match descriptor {
            Some(descriptor) => send_descriptor(self.stream.as_fd(), &bytes, descriptor)?,
            None => 0,
        };
        self.stream.write_all(&bytes[sent..])
    }

    /// The next frame; waits for it.
    ///
    /// # Errors
    /// If traced has gone, or says things that make no sense.
    pub fn read_frame(&mut self) -> io::Result<Frame> {
        loop {
            if let Some(frame) = self.buffered_frame()? {
                return Ok(frame);
            }
            self.receive()?;
        }
    }

    fn receive(&mut self) -> io::Result<()> {
        let mut buffer = [0; 16 << 10];
        let count = self.stream.read(&mut buffer)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.received.extend_from_slice(&buffer[..count]);
        Ok(())
    }

    fn buffered_frame(&mut self) -> io::Result<Option<Frame>> {
        let Some(length) = frame_length(&self.received)? else {
            return Ok(None);
        };
        let frame = frame(&self.received[4..4 + length]);
        self.received.drain(..4 + length);
        Ok(Some(frame))
    }

    /// Whether there is something to read now.
    fn is_ready(&self) -> bool {
        let mut one = libc::pollfd {
            fd: self.stream.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: `one` is one valid entry.
        unsafe { libc::poll(&mut one, 1, 0) > 0 }
    }
}

/// A connection to traced, as a producer.
#[derive(Debug)]
pub struct Producer {
    client: Client,
    /// The request whose answers are commands.
    commands: u64,
    waiting: VecDeque<Command>,
    memory: SharedBuffer,
}

impl Producer {
    /// Connects, hands traced its memory, and registers the data source.
    ///
    /// # Errors
    /// If nobody listens, or it is no traced that takes producers with memory of their own.
    pub fn connect(path: &Path, data_source: &str) -> io::Result<Self> {
        let mut producer = Producer {
            client: Client::connect(path, "ProducerPort")?,
            commands: 0,
            waiting: VecDeque::new(),
            memory: SharedBuffer::new()?,
        };
        let mut request = Message::new();
        request
            .varint(1, PAGE_BYTES as u64)
            .varint(2, (PAGE_BYTES * PAGES) as u64)
            .string(3, data_source)
            // traced reads only the chunks that it is handed.
            .varint(4, 2)
            .varint(6, 1);
        let memory = Some(producer.memory.as_fd());
        let number = producer
            .client
            .send("InitializeConnection", &request, memory)?;
        let answer = producer.answer(number)?;
        if Fields::get(&answer, 1).map_or(0, |v| v.number()) != 1 {
            return Err(invalid("traced did not take the producer's memory"));
        }
        // Before the data source is registered: traced starts it at once in sessions that run, and drops commands that nobody asks for.
        producer.commands = producer
            .client
            .send("GetAsyncCommand", &Message::new(), None)?;
        let mut descriptor = Message::new();
        descriptor.string(1, data_source).varint(2, 1);
        let mut request = Message::new();
        request.message(1, &descriptor);
        producer.call("RegisterDataSource", &request)?;
        Ok(producer)
    }

    /// Becomes readable when traced says something.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.client.stream.as_fd()
    }

    /// Whether commands have been read that [`next_command`](Self::next_command) has not handed out: the descriptor does not tell of them.
    ///
    /// # Errors
    /// If what traced said makes no sense.
    pub fn has_read_ahead(&self) -> io::Result<bool> {
        Ok(!self.waiting.is_empty() || frame_length(&self.client.received)?.is_some())
    }

    /// The memory for packets.
    pub fn memory(&mut self) -> &mut SharedBuffer {
        &mut self.memory
    }

    /// The next command that has come; reads only what is there.
    ///
    /// # Errors
    /// If traced has gone, or says things that make no sense.
    pub fn next_command(&mut self) -> io::Result<Option<Command>> {
        loop {
            if let Some(command) = self.waiting.pop_front() {
                return Ok(Some(command));
            }
            match self.client.buffered_frame()? {
                Some(frame) => self.keep(frame)?,
                None if self.client.is_ready() => self.client.receive()?,
                None => return Ok(None),
            }
        }
    }

    /// Hands chunks over and waits until traced has read them. `flush`: this answers a flush, too.
    ///
    /// # Errors
    /// If traced has gone.
    pub fn commit(&mut self, chunks: &[Completed], flush: Option<u64>) -> io::Result<()> {
        let mut request = Message::new();
        for chunk in chunks {
            let mut one = Message::new();
            one.varint(1, chunk.page as u64)
                .varint(2, 0)
                .varint(3, chunk.buffer);
            request.message(1, &one);
        }
        if let Some(flush) = flush {
            request.varint(3, flush);
        }
        self.call("CommitData", &request)
    }

    /// Says that an instance has written all.
    ///
    /// # Errors
    /// If traced has gone.
    pub fn stopped(&mut self, instance: u64) -> io::Result<()> {
        let mut request = Message::new();
        request.varint(1, instance);
        self.call("NotifyDataSourceStopped", &request)
    }

    /// Activates triggers of sessions.
    ///
    /// # Errors
    /// If traced has gone.
    pub fn trigger(&mut self, names: &[&str]) -> io::Result<()> {
        let mut request = Message::new();
        for name in names {
            request.string(1, name);
        }
        self.call("ActivateTriggers", &request)
    }

    fn call(&mut self, method: &str, request: &Message) -> io::Result<()> {
        let number = self.client.send(method, request, None)?;
        self.answer(number).map(drop)
    }

    /// Waits for the answer to this request, and keeps commands that come before it.
    fn answer(&mut self, number: u64) -> io::Result<Vec<u8>> {
        loop {
            match self.client.read_frame()? {
                Frame::Reply {
                    request,
                    is_success,
                    bytes,
                    ..
                } if request == number => {
                    return match is_success {
                        true => Ok(bytes),
                        false => Err(invalid("traced refused a request")),
                    };
                }
                frame => self.keep(frame)?,
            }
        }
    }

    fn keep(&mut self, frame: Frame) -> io::Result<()> {
        if let Frame::Reply { request, bytes, .. } = frame {
            if request == self.commands && request != 0 {
                if self.waiting.len() >= MAX_WAITING {
                    return Err(invalid("traced sends too many commands"));
                }
                self.waiting.push_back(command(&bytes));
            }
        }
        Ok(())
    }
}

/// Sends bytes with a descriptor. Returns how many were sent.
fn send_descriptor(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    descriptor: BorrowedFd<'_>,
) -> io::Result<usize> {
    #[repr(C, align(8))]
    struct Control([u8; 64]);
    let mut control = Control([0; 64]);
    let mut part = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: all zeros is a valid message header.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    let size = size_of::<libc::c_int>() as u32;
    // SAFETY: the control buffer is aligned and has room for one header with one descriptor (CMSG_SPACE(4) is 24 or less), so
    // that the first header and its data are within it; all pointers live until the call returns.
    let sent = unsafe {
        message.msg_controllen = libc::CMSG_SPACE(size) as _;
        let header = libc::CMSG_FIRSTHDR(&message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(size) as _;
        libc::CMSG_DATA(header)
            .cast::<libc::c_int>()
            .write_unaligned(descriptor.as_raw_fd());
        libc::sendmsg(socket.as_raw_fd(), &message, libc::MSG_NOSIGNAL)
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

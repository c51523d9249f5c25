// SPDX-License-Identifier: Apache-2.0
//! Waiting for many descriptors, for a time, and for another thread.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use super::call::{done, owned};

/// When a descriptor is reported. The end of its other side is always reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Only its end.
    End,
    /// It can be read.
    Read,
    /// It can be written.
    Write,
    /// It has something exceptional to say, as triggers of memory pressure do.
    Exception,
}

impl Interest {
    fn bits(self) -> u32 {
        let bits = match self {
            Interest::End => 0,
            Interest::Read => libc::EPOLLIN,
            Interest::Write => libc::EPOLLOUT,
            Interest::Exception => libc::EPOLLPRI,
        };
        bits as u32
    }
}

/// A descriptor that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The token that it was added with.
    pub token: u64,
    /// Its other side is gone, or it failed. There may still be something to be read.
    pub has_ended: bool,
}

/// The descriptors that are waited for (epoll).
#[derive(Debug)]
pub struct Poll(OwnedFd);

/// The most descriptors that one [`Poll::wait`] reports. The kernel reports the others first next time.
const MAX_READY: usize = 64;

impl Poll {
    /// Nothing to wait for yet.
    ///
    /// # Errors
    /// If the system has no descriptor for it.
    pub fn new() -> io::Result<Self> {
        // SAFETY: the result is a new descriptor, or -1.
        let poll = unsafe { owned(libc::epoll_create1(libc::EPOLL_CLOEXEC)) };
        poll.map(Poll)
    }

    fn control(
        &self,
        what: libc::c_int,
        descriptor: BorrowedFd<'_>,
        token: u64,
        interest: Interest,
    ) -> io::Result<()> {
        let mut event = libc::epoll_event {
            events: interest.bits(),
            u64: token,
        };
        let descriptor = descriptor.as_raw_fd();
        // SAFETY: both descriptors are open, and `event` is valid during the call.
        done(unsafe { libc::epoll_ctl(self.0.as_raw_fd(), what, descriptor, &mut event) })?;
        Ok(())
    }

    /// Waits for this descriptor as well, until it is closed.
    ///
    /// # Errors
    /// If the descriptor cannot be waited for, or is waited for already.
    pub fn add(&self, descriptor: BorrowedFd<'_>, token: u64, when: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, descriptor, token, when)
    }

    /// Changes what a descriptor is waited for.
    ///
    /// # Errors
    /// If it is not waited for at all.
    pub fn change(&self, descriptor: BorrowedFd<'_>, token: u64, when: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, descriptor, token, when)
    }

    /// Does not wait for this descriptor any more. Closing it does the same, unless another process has it too.
    pub fn remove(&self, descriptor: BorrowedFd<'_>) {
        // It is not there: nothing to do.
        let _ = self.control(libc::EPOLL_CTL_DEL, descriptor, 0, Interest::End);
    }

    /// Waits until something is ready, without a limit, and returns it. A signal ends the wait as well: then nothing is ready.
    ///
    /// # Errors
    /// If epoll itself is broken.
    pub fn wait(&self, ready: &mut Vec<Ready>) -> io::Result<()> {
        ready.clear();
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; MAX_READY];
        let most = MAX_READY as libc::c_int;
        // SAFETY: `events` has room for `MAX_READY` results.
        let count = unsafe { libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), most, -1) };
        let count = match done(count) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => 0,
            count => count? as usize,
        };
        let of = |event: &libc::epoll_event| Ready {
            token: event.u64,
            has_ended: event.events & (libc::EPOLLHUP | libc::EPOLLERR) as u32 != 0,
        };
        ready.extend(events[..count].iter().map(of));
        Ok(())
    }
}

/// A time to wait for, also while the device sleeps; it does not wake the device up (timerfd).
#[derive(Debug)]
pub struct Timer {
    descriptor: OwnedFd,
    at: Option<u64>,
}

impl Timer {
    /// Not set.
    ///
    /// # Errors
    /// If the system has no descriptor for it.
    pub fn new() -> io::Result<Self> {
        let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
        // SAFETY: the result is a new descriptor, or -1.
        let descriptor = unsafe { owned(libc::timerfd_create(libc::CLOCK_BOOTTIME, flags)) }?;
        Ok(Timer {
            descriptor,
            at: None,
        })
    }

    /// Becomes readable at this time, `CLOCK_BOOTTIME`, ns; `None`: never. A time that has passed makes it readable at once.
    ///
    /// # Errors
    /// If the system refuses the time.
    pub fn set(&mut self, at: Option<u64>) -> io::Result<()> {
        if at == self.at {
            return Ok(());
        }
        // 0 would switch it off.
        let ns = at.map_or(0, |at| at.max(1));
        let seconds = libc::time_t::try_from(ns / 1_000_000_000).unwrap_or(libc::time_t::MAX);
        let mut time = libc::itimerspec {
            it_interval: libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            },
            it_value: libc::timespec {
                tv_sec: seconds,
                tv_nsec: 0,
            },
        };
        time.it_value.tv_nsec = (ns % 1_000_000_000) as _;
        let descriptor = self.descriptor.as_raw_fd();
        // SAFETY: `time` is valid during the call; no old value is wanted.
        done(unsafe {
            libc::timerfd_settime(
                descriptor,
                libc::TFD_TIMER_ABSTIME,
                &time,
                std::ptr::null_mut(),
            )
        })?;
        self.at = at;
        Ok(())
    }

    /// Makes it unreadable after its time has come; it is not set any more.
    pub fn acknowledge(&mut self) {
        read_counter(&self.descriptor);
        self.at = None;
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Wakes a thread that waits for it (eventfd).
#[derive(Debug)]
pub struct Waker(OwnedFd);

impl Waker {
    /// Not woken.
    ///
    /// # Errors
    /// If the system has no descriptor for it.
    pub fn new() -> io::Result<Self> {
        let flags = libc::EFD_CLOEXEC | libc::EFD_NONBLOCK;
        // SAFETY: the result is a new descriptor, or -1.
        unsafe { owned(libc::eventfd(0, flags)) }.map(Waker)
    }

    /// Makes it readable.
    pub fn wake(&self) {
        let one = 1_u64.to_ne_bytes();
        // It can only fail because it is readable already.
        // SAFETY: `one` has the eight bytes that are written.
        unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Makes it unreadable.
    pub fn acknowledge(&self) {
        read_counter(&self.0);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Reads the eight bytes of a timerfd or eventfd, which makes it unreadable. Neither blocks.
fn read_counter(descriptor: &OwnedFd) {
    let mut count = [0_u8; 8];
    // SAFETY: `count` has room for the eight bytes.
    unsafe { libc::read(descriptor.as_raw_fd(), count.as_mut_ptr().cast(), 8) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waker_is_ready_until_it_is_acknowledged_and_a_timer_once_its_time_has_come() {
        let poll = Poll::new().unwrap();
        let waker = Waker::new().unwrap();
        let mut timer = Timer::new().unwrap();
        poll.add(waker.as_fd(), 1, Interest::Read).unwrap();
        poll.add(timer.as_fd(), 2, Interest::Read).unwrap();
        let mut ready = Vec::new();
        waker.wake();
        waker.wake();
        poll.wait(&mut ready).unwrap();
        assert_eq!(ready.iter().map(|r| r.token).collect::<Vec<_>>(), [1]);
        waker.acknowledge();
        // Since boot: it has passed.
        timer.set(Some(1)).unwrap();
        poll.wait(&mut ready).unwrap();
        assert_eq!(ready.iter().map(|r| r.token).collect::<Vec<_>>(), [2]);
        timer.acknowledge();
        waker.wake();
        poll.wait(&mut ready).unwrap();
        assert_eq!(ready.iter().map(|r| r.token).collect::<Vec<_>>(), [1]);
        assert!(poll.add(waker.as_fd(), 3, Interest::Read).is_err());
    }
}

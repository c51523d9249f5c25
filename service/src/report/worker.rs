// SPDX-License-Identifier: Apache-2.0
//! The thread that waits for the disk.

use std::io;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::Arc;
use std::thread::JoinHandle;

use crate::os::{System, Waker};
use crate::store::Store;

use super::disk::Disk;
use super::job::{Done, Job};

/// The thread, which has one job at a time.
pub struct Worker {
    jobs: Option<SyncSender<Job>>,
    done: Receiver<Done>,
    waker: Arc<Waker>,
    thread: Option<JoinHandle<()>>,
    is_busy: bool,
}

impl Worker {
    /// Starts the thread; the store is its own from now on. The waker is woken after each job.
    ///
    /// # Errors
    /// If the system has no thread or descriptor left.
    pub fn start(store: Store, system: Arc<dyn System>) -> io::Result<Self> {
        let waker = Arc::new(Waker::new()?);
        let (jobs, receiver) = mpsc::sync_channel(1);
        let (sender, done) = mpsc::channel();
        let wakes = Arc::clone(&waker);
        let thread = std::thread::Builder::new()
            .name("hindsightd-disk".to_owned())
            .spawn(move || {
                let mut disk = Disk::new(store, system);
                while let Some((outcome, is_by_itself)) = disk.next(&receiver) {
                    let store = &mut disk.store;
                    let done = Done {
                        outcome,
                        log: store.take_log(),
                        reports: store.reports().count(),
                        bytes: store.total_bytes(),
                        is_by_itself,
                    };
                    if sender.send(done).is_err() {
                        break;
                    }
                    wakes.wake();
                }
            })?;
        Ok(Worker {
            jobs: Some(jobs),
            done,
            waker,
            thread: Some(thread),
            is_busy: false,
        })
    }

    /// Becomes readable after each job.
    pub fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Whether a job has not ended yet.
    pub fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// Gives the thread a job; only while it has none.
    pub fn give(&mut self, job: Job) {
        // There is room for it, as there is no other job; the thread only ends when the channel does.
        self.is_busy = self
            .jobs
            .as_ref()
            .is_some_and(|jobs| jobs.try_send(job).is_ok());
    }

    /// The end of a job.
    pub fn take_done(&mut self) -> Option<Done> {
        let done = self.done.try_recv().ok()?;
        self.is_busy &= done.is_by_itself;
        Some(done)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

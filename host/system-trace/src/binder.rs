// SPDX-License-Identifier: Apache-2.0
//! Transactions of binder: who sent them, who served them, and when the reply came.

use hashbrown::HashMap;

use crate::records::BinderRecord;

/// A transaction of binder for whose reply the sender waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// The thread that sent it: its id.
    pub from: u32,
    /// When it did, CLOCK_BOOTTIME, ns.
    pub sent_ns: u64,
    /// The id of the thread that received it; `None` if that is not recorded.
    pub by: Option<u32>,
    /// When that one received it, ns.
    pub received_ns: u64,
    /// When the reply was sent, ns; `u64::MAX` if that is not recorded.
    pub replied_ns: u64,
    /// What was asked for: a number of the interface.
    pub code: u32,
}

/// All transactions, in the order in which they were sent.
#[derive(Debug, Default)]
pub(crate) struct Transactions {
    all: Vec<Transaction>,
    /// Places among `all`: by the thread that sent them, and then by time.
    by_sender: Vec<u32>,
}

impl Transactions {
    /// Of events in the order of time.
    pub(crate) fn of(records: &[BinderRecord]) -> Self {
        let mut all: Vec<Transaction> = Vec::new();
        // By number, a transaction that was sent and not received.
        let mut under_way: HashMap<u32, u32> = HashMap::new();
        // By thread, the transactions that it serves.
        let mut served: HashMap<u32, Vec<u32>> = HashMap::new();
        for record in records {
            match record.sent {
                Some(sent) if sent.is_reply => {
                    let open = served.get_mut(&record.tid);
                    reply(&mut all, open, record, sent.to_thread);
                }
                Some(sent) if !sent.is_one_way => {
                    under_way.insert(record.id, all.len() as u32);
                    all.push(Transaction {
                        from: record.tid,
                        sent_ns: record.at_ns,
                        by: None,
                        received_ns: u64::MAX,
                        replied_ns: u64::MAX,
                        code: sent.code,
                    });
                }
                Some(_) => {}
                None => {
                    if let Some(place) = under_way.remove(&record.id) {
                        let transaction = &mut all[place as usize];
                        transaction.by = Some(record.tid);
                        transaction.received_ns = record.at_ns;
                        served.entry(record.tid).or_default().push(place);
                    }
                }
            }
        }
        let mut by_sender: Vec<u32> = (0..all.len() as u32).collect();
        by_sender.sort_by_key(|&i| all[i as usize].from);
        Transactions { all, by_sender }
    }

    /// The transactions of a thread that were under way from `from` to `to`, ns, in the order of time.
    pub(crate) fn sent(
        &self,
        tid: u32,
        from: u64,
        to: u64,
    ) -> impl Iterator<Item = &Transaction> + '_ {
        let at = |i: &u32| &self.all[*i as usize];
        let first = (self.by_sender).partition_point(|i| (at(i).from, at(i).sent_ns) < (tid, from));
        // A thread waits for one reply at a time, so that only the one before may still be under way.
        let before = first.checked_sub(1).map(|i| at(&self.by_sender[i]));
        let before = before.filter(|t| t.from == tid && t.replied_ns > from);
        let own = self.by_sender[first..].iter().map(at);
        let own = own.take_while(move |t| t.from == tid && t.sent_ns <= to);
        before.into_iter().chain(own)
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }
}

/// The most transactions that a thread serves inside each other. Further out no reply's transaction is looked for: otherwise
/// many of them without replies would take a long time.
const MOST_NESTED: usize = 256;

/// A reply belongs to the transaction of the thread that it is for that was received last.
fn reply(all: &mut [Transaction], open: Option<&mut Vec<u32>>, record: &BinderRecord, to: u32) {
    let Some(open) = open else { return };
    let is_for = |&place: &u32| to == 0 || all[place as usize].from == to;
    let first = open.len().saturating_sub(MOST_NESTED);
    let Some(index) = open[first..].iter().rposition(is_for) else {
        return;
    };
    let index = first + index;
    // What it had received later will get no reply.
    let place = open[index];
    open.truncate(index);
    all[place as usize].replied_ns = record.at_ns;
}

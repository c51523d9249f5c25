// SPDX-License-Identifier: Apache-2.0
//! The packets of a trace: every call begins and ends once, in the order of time, on a track of its thread.

use std::io;
use std::path::Path;

use hindsight_decoder::Trace;
use hindsight_perfetto_source::packets::{write, Sink, CLEAR_BYTES};
use hindsight_perfetto_source::proto::Fields;
use hindsight_perfetto_source::shared_buffer::MAX_PACKET_BYTES;

#[derive(Default)]
struct Packets(Vec<Vec<u8>>);

impl Sink for Packets {
    fn packet(&mut self, packet: &[u8]) -> io::Result<()> {
        self.0.push(packet.to_vec());
        Ok(())
    }
}

fn number(bytes: &[u8], field: u32) -> u64 {
    Fields::get(bytes, field).map_or(0, |v| v.number())
}

#[test]
fn calls_begin_and_end_in_the_order_of_time() {
    let trace = Trace::decode(Path::new("t"), &hindsight_testkit::stall().encode()).unwrap();
    let mut packets = Packets::default();
    let written = write(&trace, &mut packets).unwrap();
    let calls: usize = trace.threads.iter().map(|t| t.calls.len()).sum();
    let events: usize = trace.threads.iter().map(|t| t.events.len()).sum();
    assert_eq!(
        (written.calls, written.events),
        (calls as u64, events as u64)
    );
    assert!(calls > 10);

    let (mut begins, mut ends, mut open, mut last_ns, mut since_clear) = (0, 0, 0_i64, 0, 0);
    let mut tids = Vec::new();
    for packet in &packets.0 {
        assert!(packet.len() <= MAX_PACKET_BYTES);
        since_clear += packet.len();
        if number(packet, 13) == 1 {
            let track = Fields::get(packet, 60).unwrap().bytes();
            if let Some(thread) = Fields::get(track, 4) {
                let tid = number(thread.bytes(), 2);
                if tids.last() != Some(&tid) {
                    assert_eq!(open, 0, "a thread's calls all end");
                    tids.push(tid);
                    last_ns = 0;
                }
            }
            since_clear = 0;
        }
        assert!(since_clear <= CLEAR_BYTES + MAX_PACKET_BYTES);
        let Some(event) = Fields::get(packet, 11) else {
            continue;
        };
        let at_ns = number(packet, 8);
        assert!(at_ns >= last_ns, "{at_ns} after {last_ns}");
        last_ns = at_ns;
        match number(event.bytes(), 9) {
            1 => (begins, open) = (begins + 1, open + 1),
            2 => (ends, open) = (ends + 1, open - 1),
            other => assert_eq!(other, 3),
        }
        assert!(open >= 0);
    }
    assert_eq!((begins, ends, open), (calls, calls, 0));
    let recorded: Vec<u64> = trace.threads.iter().map(|t| t.tid.into()).collect();
    assert!(tids.iter().all(|tid| recorded.contains(tid)));
}

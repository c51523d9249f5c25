// SPDX-License-Identifier: Apache-2.0
//! Writes method traces as ART does, in each of its layouts.

/// How the file is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArtLayout {
    /// Version 1, of Dalvik: 9-byte records.
    V1,
    /// Version 2: one clock, 10-byte records.
    V2,
    /// Version 3: two clocks, 14-byte records.
    V3,
    /// Version 2 as a stream, with the size of its records in bytes: 14 up to ART 12, 10 later.
    V2Stream(usize),
    /// Version 3 as a stream.
    V3Stream,
    /// Packets of Android 15, with one clock or two.
    Packets {
        /// Two clocks.
        dual: bool,
    },
}

/// An event: index of the thread, index of the method, action (0 entry, 1 exit, 2 unwinding), CPU time, wall-clock
/// time (both µs).
pub type ArtEvent = (usize, usize, u8, u32, u32);

/// A method trace.
#[derive(Clone, Debug, Default)]
pub struct ArtFile {
    /// Thread ids and names.
    pub threads: Vec<(u32, String)>,
    /// Class, name, signature, source file.
    pub methods: Vec<[String; 4]>,
    /// In the order of time.
    pub events: Vec<ArtEvent>,
    /// Start, µs.
    pub start_us: u64,
}

const MAGIC: u32 = 0x574f_4c53;

impl ArtFile {
    fn method_line(&self, index: usize, separator: &str) -> String {
        format!(
            "{:#x}{separator}{}\n",
            index << 2,
            self.methods[index].join("\t")
        )
    }

    fn text(&self, version: u16, clock: &str, lists: bool) -> String {
        let mut text = format!(
            "*version\n{version}\ndata-file-overflow=false\nclock={clock}\nelapsed-time-usec=1\nvm=art\npid=77\n"
        );
        if lists {
            text += "*threads\n";
            for (tid, name) in &self.threads {
                text += &format!("{tid}\t{name}\n");
            }
            text += "*methods\n";
            for index in 0..self.methods.len() {
                text += &self.method_line(index, "\t");
            }
        }
        text + "*end\n"
    }

    /// The bytes of the file.
    pub fn encode(&self, layout: ArtLayout) -> Vec<u8> {
        let mut out = Vec::new();
        let (version, record_bytes, clock) = match layout {
            ArtLayout::V1 => (1, 9, "thread-cpu"),
            ArtLayout::V2 => (2, 10, "wall"),
            ArtLayout::V3 => (3, 14, "dual"),
            ArtLayout::V2Stream(bytes) => (2, bytes, "wall"),
            ArtLayout::V3Stream => (3, 14, "dual"),
            ArtLayout::Packets { dual } => return self.packets(dual),
        };
        let streaming = matches!(layout, ArtLayout::V2Stream(_) | ArtLayout::V3Stream);
        if !streaming {
            out.extend(self.text(version, clock, true).bytes());
        }
        let header_at = out.len();
        out.extend(MAGIC.to_le_bytes());
        out.extend((version | if streaming { 0xf0 } else { 0 }).to_le_bytes());
        out.extend(32_u16.to_le_bytes());
        out.extend(self.start_us.to_le_bytes());
        if streaming || version == 3 {
            // ART writes this size even where records are padded.
            let said: u16 = if version == 3 { 14 } else { 10 };
            out.extend(said.to_le_bytes());
        }
        out.resize(header_at + 32, 0);
        let (mut seen_threads, mut seen_methods) = (Vec::new(), Vec::new());
        for &(thread, method, action, thread_us, wall_us) in &self.events {
            let tid = self.threads[thread].0;
            if streaming && !seen_methods.contains(&method) {
                seen_methods.push(method);
                let line = self.method_line(method, "\t");
                out.extend([0, 0, 1]);
                out.extend((line.len() as u16).to_le_bytes());
                out.extend(line.bytes());
            }
            if streaming && !seen_threads.contains(&thread) {
                seen_threads.push(thread);
                let name = &self.threads[thread].1;
                out.extend([0, 0, 2]);
                out.extend((tid as u16).to_le_bytes());
                out.extend((name.len() as u16).to_le_bytes());
                out.extend(name.bytes());
            }
            let start = out.len();
            match layout {
                ArtLayout::V1 => out.push(tid as u8),
                _ => out.extend((tid as u16).to_le_bytes()),
            }
            out.extend(((method as u32) << 2 | u32::from(action)).to_le_bytes());
            match version {
                1 => out.extend(thread_us.to_le_bytes()),
                2 => out.extend(wall_us.to_le_bytes()),
                _ => {
                    out.extend(thread_us.to_le_bytes());
                    out.extend(wall_us.to_le_bytes());
                }
            }
            // ART leaves the last bytes uninitialized.
            out.resize(start + record_bytes, 0x5a);
        }
        if streaming {
            let text = self.text(version, clock, true);
            out.extend([0, 0, 3]);
            out.extend((text.len() as u32).to_le_bytes());
            out.extend(text.bytes());
        }
        out
    }

    fn packets(&self, dual: bool) -> Vec<u8> {
        let mut out = Vec::new();
        let version: u16 = if dual { 5 } else { 4 };
        out.extend(MAGIC.to_le_bytes());
        out.extend((version | 0xf0).to_le_bytes());
        out.extend((self.start_us * 1_000).to_le_bytes());
        out.resize(32, 0);
        for (tid, name) in &self.threads {
            out.push(0);
            out.extend(tid.to_le_bytes());
            out.extend((name.len() as u16).to_le_bytes());
            out.extend(name.bytes());
        }
        let address = |method: usize| 0x7000_1000 + 40 * method as u64;
        for (index, method) in self.methods.iter().enumerate() {
            let line = format!("{}\n", method.join("\t"));
            out.push(1);
            out.extend(address(index).to_le_bytes());
            out.extend((line.len() as u16).to_le_bytes());
            out.extend(line.bytes());
        }
        // A block a thread, of at most 100 events.
        for (index, (tid, _)) in self.threads.iter().enumerate() {
            let own: Vec<_> = self.events.iter().filter(|e| e.0 == index).collect();
            for block in own.chunks(100) {
                let mut body = Vec::new();
                let (mut word, mut wall, mut cpu) = (0_u64, 0, 0);
                for &&(_, method, action, thread_us, wall_us) in block {
                    let next = address(method) | u64::from(action);
                    sleb(&mut body, next.wrapping_sub(word) as i64);
                    word = next;
                    let at = u64::from(wall_us) * 1_000;
                    uleb(&mut body, at - wall);
                    wall = at;
                    if dual {
                        let at = u64::from(thread_us) * 1_000;
                        uleb(&mut body, at - cpu);
                        cpu = at;
                    }
                }
                out.push(2);
                out.extend(tid.to_le_bytes());
                out.extend(&(block.len() as u32).to_le_bytes()[..3]);
                out.extend((body.len() as u32).to_le_bytes());
                out.append(&mut body);
            }
        }
        let clock = if dual { "dual" } else { "wall" };
        let text = self.text(version, clock, false);
        out.push(3);
        out.extend((text.len() as u16).to_le_bytes());
        out.extend(text.bytes());
        out
    }
}

fn uleb(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn sleb(out: &mut Vec<u8>, mut value: i64) {
    loop {
        let byte = value as u8 & 0x7f;
        value >>= 7;
        if (value == 0 && byte & 0x40 == 0) || (value == -1 && byte & 0x40 != 0) {
            out.push(byte);
            return;
        }
        out.push(byte | 0x80);
    }
}

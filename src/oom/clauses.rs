//! The clauses of the allocators' messages. Each is optional and looked for on its own, so that the order of clauses,
//! which changed between releases, does not matter.

use super::figure::{self, Figure};
use super::message::{Kind, Message, NamedProcess, ProcessUse};
use super::squash::Squashed;

/// A stretch of text being read into a message.
struct Reader<'a> {
    text: &'a Squashed,
    message: Message,
    /// End of the last clause, in squashed text.
    end: usize,
}

/// Reads every clause in `text` into a message of `kind` that begins at `offset` of the log.
pub fn read(text: &Squashed, kind: Kind, offset: usize) -> Message {
    let mut reader = Reader { text, message: Message::new(kind, offset, offset), end: 0 };
    match kind {
        Kind::CudaMallocAsync => reader.cuda_malloc_async(),
        Kind::AllocationWarning => reader.warning(),
        Kind::Mps => reader.mps(),
        Kind::DirectMl => reader.message.tried = reader.plain_after("allocating", b"allocatetensorwith"),
        Kind::PreemptiveRejection => reader.message.tried = reader.after("request", b"requestedsize:"),
        Kind::MoreThan1Eb | Kind::CudaRuntimeError => {}
        _ => reader.allocator(),
    }
    let last = reader.end.saturating_sub(1);
    reader.message.end = text.offsets.get(last).map_or(offset, |&at| at + 1);
    reader.message.is_cut = !reader.message.has_figures()
        || (reader.message.total.is_none() && text.text.ends_with(b"gpu") && reader.message.tried.is_some());
    reader.message
}

impl Reader<'_> {
    fn allocator(&mut self) {
        self.message.tried = self.after("request", b"triedtoallocate");
        self.message.device = self.device();
        self.message.total = self
            .after("card", b"totalcapacityof")
            .or_else(|| self.after("card", b"totalcapactyof"))
            .or_else(|| self.before("card", b"totalcapacity"));
        self.message.free = self
            .after("free", b"ofwhich")
            .or_else(|| self.before("free", b"free;"))
            .or_else(|| self.before("free", b"free)"));
        self.processes();
        self.message.allowed = self.before("allowed", b"allowed;");
        self.message.allocated =
            self.before("allocated", b"isallocatedbypytorch").or_else(|| self.before("allocated", b"alreadyallocated"));
        self.message.private_pools = self.before("private pools", b"allocatedinprivatepools");
        // Up to PyTorch 1.4 "cached" does not include what is allocated.
        self.message.reserved_unallocated =
            self.before("reserved", b"isreservedbypytorchbutunallocated").or_else(|| self.before("cached", b"cached)"));
        self.message.reserved = self.before("reserved", b"reservedintotal");
        self.message.active = self.before("active", b"currentactive");
        let sentences = [&b"totalcapacityof"[..], b"totalcapactyof", b"isallocatedbypytorch"];
        self.message.is_new_wording = sentences.iter().any(|words| self.text.find(words).is_some());
        self.message.says_expandable = self.text.find(b"expandable_segmentsisenabled").is_some()
            || self.text.find(b"exceedstheexpandable-segmentreserve").is_some();
    }

    fn cuda_malloc_async(&mut self) {
        self.message.device = self.number_after(b"ondevice");
        self.message.allocated = self.after("allocated", b"currentlyallocated");
        self.message.tried = self.after("request", b"requested");
        self.message.total = self.after("card", b"devicelimit");
        self.message.free = self.after("free", b"free(accordingtocuda)");
        self.message.allowed = self.after("allowed", b"user-suppliedmemoryfraction)");
    }

    fn warning(&mut self) {
        self.message.device = self.number_after(b"ondevice");
        self.message.tried = self.plain_after("request", b"tryingtoallocate");
        self.message.free = self.plain_after("free", b"(free:");
        self.message.total = self.plain_after("card", b"total:");
    }

    fn mps(&mut self) {
        self.message.tried = self.after("request", b"triedtoallocate");
        self.message.allocated = self.after("allocated", b"mpsallocated:");
        self.message.other_allocations = self.after("other allocations", b"otherallocations:");
        self.message.allowed = self.after("allowed", b"maxallowed:");
    }

    /// `GPU 2 has`, `(GPU 2;`, `(NPU 3;`. Release 2.3 writes the number as a raw byte.
    fn device(&self) -> Option<u32> {
        if let Some((rest, _)) = self.text.after(b".gpu").or_else(|| self.text.after(b"(gpu"))
            && let [raw, b'h', ..] = rest
            && *raw < 0x20
        {
            return Some(u32::from(*raw));
        }
        [&b".gpu"[..], b"(gpu", b".npu", b"(npu", b".xpu", b"(xpu"].iter().find_map(|word| self.number_after(word))
    }

    fn number_after(&self, word: &[u8]) -> Option<u32> {
        let (rest, _) = self.text.after(word)?;
        let digits = rest.iter().take_while(|c| c.is_ascii_digit()).count();
        std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()
    }

    fn processes(&mut self) {
        if let Some(at) = self.text.find(b"thisprocesshas") {
            let start = at + b"thisprocesshas".len();
            self.message.process_in_use = match figure::read(&self.text.text[start..]) {
                Some((found, length)) => match self.take("this process", found, start + length) {
                    Some(bytes) => ProcessUse::Known(bytes),
                    None => ProcessUse::Unknown,
                },
                None => ProcessUse::NotSaid,
            };
        }
        let mut from = 0;
        while let Some(at) = memchr::memmem::find(&self.text.text[from..], b"process") {
            let start = from + at + b"process".len();
            from = start;
            if let Some((process, end)) = self.process(start) {
                self.message.other_processes.push(process);
                self.end = self.end.max(end);
                from = end;
            }
        }
    }

    /// `73820 has 30.58 GiB memory in use`, from its number on.
    fn process(&mut self, start: usize) -> Option<(NamedProcess, usize)> {
        let rest = &self.text.text[start..];
        let digits = rest.iter().take_while(|c| c.is_ascii_digit()).count();
        let pid = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
        let rest = rest[digits..].strip_prefix(b"has")?;
        let (found, length) = figure::read(rest)?;
        if !rest[length..].starts_with(b"memoryinuse") {
            return None;
        }
        let end = start + digits + b"has".len() + length;
        let bytes = self.take("another process", found, end);
        Some((NamedProcess { pid, bytes }, end))
    }

    fn after(&mut self, what: &'static str, words: &[u8]) -> Option<u64> {
        let (rest, at) = self.text.after(words)?;
        // A colon that begins a wrapped line may have been taken for a logger's.
        let colon = usize::from(rest.first() == Some(&b':'));
        let (found, length) = figure::read(&rest[colon..])?;
        self.take(what, found, at + colon + length)
    }

    fn plain_after(&mut self, what: &'static str, words: &[u8]) -> Option<u64> {
        let (rest, at) = self.text.after(words)?;
        let (found, length) = figure::read_plain(rest)?;
        self.take(what, found, at + length)
    }

    fn before(&mut self, what: &'static str, words: &[u8]) -> Option<u64> {
        let (rest, at) = self.text.before(words)?;
        let found = figure::read_back(rest)?;
        self.take(what, found, at + words.len())
    }

    fn take(&mut self, what: &'static str, found: Figure, end: usize) -> Option<u64> {
        self.end = self.end.max(end);
        self.message.tolerance = self.message.tolerance.max(found.tolerance);
        if found.bytes.is_none() {
            self.message.dropped.push(what);
        }
        found.bytes
    }
}

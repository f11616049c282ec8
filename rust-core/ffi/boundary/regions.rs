//! Where a call's memory lies: alignment, address space, overlap.

use crate::abi;
use crate::fault::Fault;

/// Pointers of the call that has most of them, `mortise_preempt_group`.
const MAX_REGIONS: usize = 18;

/// The memory that one call touches; outputs overlap nothing.
#[derive(Default)]
pub(crate) struct Regions {
    list: [Region; MAX_REGIONS],
    len: usize,
}

#[derive(Clone, Copy, Default)]
struct Region {
    name: &'static str,
    start: usize,
    end: usize,
    output: bool,
}

impl Regions {
    pub(super) fn add(
        &mut self,
        name: &'static str,
        start: usize,
        bytes: usize,
        output: bool,
    ) -> Result<(), Fault> {
        let end = start.checked_add(bytes).filter(|_| bytes <= isize::MAX as usize);
        let Some(end) = end else {
            return Err(Fault::new(
                abi::MORTISE_ERR_BAD_LENGTH,
                format!("{name} at {start:#x} with {bytes} bytes runs past the address space"),
            ));
        };
        let region = Region { name, start, end, output };
        let overlap = |other: &&Region| {
            (output || other.output) && region.start < other.end && other.start < region.end
        };
        if let Some(other) = self.list[..self.len].iter().find(overlap) {
            return Err(Fault::new(
                abi::MORTISE_ERR_OVERLAP,
                format!(
                    "{name} ({:#x}..{:#x}) overlaps {} ({:#x}..{:#x}); give outputs memory of their own",
                    region.start, region.end, other.name, other.start, other.end
                ),
            ));
        }
        if bytes > 0 {
            self.list[self.len] = region;
            self.len += 1;
        }
        Ok(())
    }
}

pub(super) fn check_pointer<T>(name: &'static str, pointer: *const T) -> Result<(), Fault> {
    if pointer.is_null() {
        return Err(Fault::null(name));
    }
    if !pointer.is_aligned() {
        return Err(Fault::new(
            abi::MORTISE_ERR_MISALIGNED,
            format!(
                "{name} is at {:#x}; it must be a multiple of {}",
                pointer.addr(),
                align_of::<T>()
            ),
        ));
    }
    Ok(())
}

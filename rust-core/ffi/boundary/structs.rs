//! Structs that say their own size.

use std::ptr;

use super::plain::{Sized32, check_size, copy_in, tail_is_zero, unknown_tail};
use super::regions::{Regions, check_pointer};
use crate::fault::Fault;

/// # Safety
/// The header's promise for `pointer`.
unsafe fn declared_size<T: Sized32>(name: &'static str, pointer: *const T) -> Result<usize, Fault> {
    check_pointer(name, pointer)?;
    // SAFETY: not NULL, aligned for T and so for its first field, a u32; the header's promise covers at least that.
    let size = unsafe { pointer.cast::<u32>().read() } as usize;
    check_size(name, "struct_size", size, T::MIN_SIZE)?;
    Ok(size)
}

/// Copies a caller's struct.
///
/// # Safety
/// The header's promise for `pointer`.
pub(crate) unsafe fn read_struct<T: Sized32>(
    regions: &mut Regions,
    name: &'static str,
    pointer: *const T,
) -> Result<T, Fault> {
    // SAFETY: passed on.
    let size = unsafe { declared_size(name, pointer)? };
    regions.add(name, pointer.addr(), size, false)?;
    let bytes = pointer.cast::<u8>();
    // SAFETY: the header's promise: struct_size initialised bytes.
    if !unsafe { tail_is_zero::<T>(bytes, size) } {
        return Err(unknown_tail(name, size_of::<T>()));
    }
    // SAFETY: as above.
    Ok(unsafe { copy_in(bytes, size) })
}

/// Where a struct goes if the call succeeds.
pub(crate) struct OutStruct<T> {
    pointer: *mut T,
    size: usize,
}

impl<T: Sized32> OutStruct<T> {
    /// # Safety
    /// The header's promise for `pointer`, until it is written.
    pub(crate) unsafe fn new(
        regions: &mut Regions,
        name: &'static str,
        pointer: *mut T,
    ) -> Result<Self, Fault> {
        // SAFETY: passed on.
        let size = unsafe { declared_size(name, pointer.cast_const())? };
        regions.add(name, pointer.addr(), size, true)?;
        Ok(Self { pointer, size })
    }

    /// The caller's `struct_size`.
    pub(crate) const fn size(&self) -> usize {
        self.size
    }

    /// Writes what both sides know, except `struct_size`.
    pub(crate) fn write(self, value: T) {
        let known = self.size.min(size_of::<T>());
        let skip = size_of::<u32>();
        // SAFETY: T is larger than its first field.
        let from = unsafe { (&raw const value).cast::<u8>().add(skip) };
        // SAFETY: the caller's struct has `size` >= `skip` bytes.
        let to = unsafe { self.pointer.cast::<u8>().add(skip) };
        // SAFETY: both have `known` bytes from their start; a local overlaps nothing of the caller's.
        unsafe { ptr::copy_nonoverlapping(from, to, known - skip) };
    }
}

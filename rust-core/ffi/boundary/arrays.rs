//! Arrays with a stride.

use std::marker::PhantomData;
use std::ptr;

use super::plain::{Plain, check_size, copy_in, tail_is_zero, unknown_tail};
use super::regions::{Regions, check_pointer};
use crate::abi;
use crate::fault::Fault;

/// Checks the memory of an array and gives its bytes' length.
fn check_array<T>(
    name: &'static str,
    pointer: *const T,
    count: usize,
    stride: usize,
) -> Result<usize, Fault> {
    check_pointer(name, pointer)?;
    count.checked_mul(stride).ok_or_else(|| {
        Fault::new(
            abi::MORTISE_ERR_BAD_LENGTH,
            format!("{name} has {count} elements of {stride} bytes, more than memory"),
        )
    })
}

fn check_stride<T: Plain>(name: &'static str, stride: u32) -> Result<usize, Fault> {
    let stride = stride as usize;
    check_size(name, "stride", stride, T::MIN_SIZE)?;
    if !stride.is_multiple_of(align_of::<T>()) {
        return Err(Fault::new(
            abi::MORTISE_ERR_BAD_STRUCT_SIZE,
            format!("stride of {name} is {stride}; it must be a multiple of {}", align_of::<T>()),
        ));
    }
    Ok(stride)
}

/// A caller's array that is read element by element, by copy.
pub(crate) struct InArray<T> {
    name: &'static str,
    base: *const u8,
    count: usize,
    stride: usize,
    element: PhantomData<T>,
}

impl<T: Plain> InArray<T> {
    /// An array of elements with a stride from the caller.
    ///
    /// # Safety
    /// The header's promise for `pointer`, for as long as the array is used.
    pub(crate) unsafe fn strided(
        regions: &mut Regions,
        name: &'static str,
        pointer: *const T,
        count: usize,
        stride: u32,
        max: u64,
    ) -> Result<Self, Fault> {
        if count as u64 > max {
            return Err(Fault::limit(format_args!("count of {name}"), count, max));
        }
        if count == 0 {
            return Ok(Self { name, base: ptr::null(), count, stride: 0, element: PhantomData });
        }
        let stride = check_stride::<T>(name, stride)?;
        let bytes = check_array(name, pointer, count, stride)?;
        regions.add(name, pointer.addr(), bytes, false)?;
        Ok(Self { name, base: pointer.cast(), count, stride, element: PhantomData })
    }

    /// An array without gaps.
    ///
    /// # Safety
    /// As [`InArray::strided`].
    pub(crate) unsafe fn packed(
        regions: &mut Regions,
        name: &'static str,
        pointer: *const T,
        count: usize,
        max: u64,
    ) -> Result<Self, Fault> {
        // SAFETY: passed on.
        unsafe { Self::strided(regions, name, pointer, count, size_of::<T>() as u32, max) }
    }

    pub(crate) const fn len(&self) -> usize {
        self.count
    }

    /// Copies element `index`, which must be below [`InArray::len`].
    pub(crate) fn get(&self, index: usize) -> Result<T, Fault> {
        assert!(index < self.count, "{}[{index}] of {}", self.name, self.count);
        // SAFETY: the constructor checked that count * stride bytes do not overflow, its caller promised that they exist.
        let element = unsafe { self.base.add(index * self.stride) };
        // SAFETY: as above: `stride` initialised bytes.
        if !unsafe { tail_is_zero::<T>(element, self.stride) } {
            return Err(unknown_tail(&format!("{}[{index}]", self.name), size_of::<T>()));
        }
        // SAFETY: as above.
        Ok(unsafe { copy_in(element, self.stride) })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Result<T, Fault>> {
        (0..self.count).map(|index| self.get(index))
    }
}

impl InArray<u32> {
    /// Copies all numbers into `buffer`.
    pub(crate) fn copy_to(&self, buffer: &mut Vec<u32>) -> Result<(), Fault> {
        buffer.clear();
        buffer.try_reserve(self.count).map_err(|_| Fault::out_of_memory(self.name, self.count))?;
        for number in self.iter() {
            buffer.push(number?);
        }
        Ok(())
    }
}

impl InArray<u8> {
    /// Copies all bytes.
    pub(crate) fn to_vec(&self) -> Result<Vec<u8>, Fault> {
        let mut bytes = Vec::new();
        bytes
            .try_reserve_exact(self.count)
            .map_err(|_| Fault::out_of_memory("bytes", self.count))?;
        for byte in self.iter() {
            bytes.push(byte?);
        }
        Ok(bytes)
    }
}

/// Where elements go if the call succeeds.
pub(crate) struct OutArray<T> {
    name: &'static str,
    base: *mut u8,
    capacity: usize,
    stride: usize,
    element: PhantomData<T>,
}

impl<T: Plain> OutArray<T> {
    /// An array of elements with a stride from the caller. NULL is allowed with capacity 0.
    ///
    /// # Safety
    /// The header's promise for `pointer`, until it is written.
    pub(crate) unsafe fn strided(
        regions: &mut Regions,
        name: &'static str,
        pointer: *mut T,
        capacity: usize,
        stride: u32,
    ) -> Result<Self, Fault> {
        if capacity == 0 {
            return Ok(Self {
                name,
                base: pointer.cast(),
                capacity,
                stride: 0,
                element: PhantomData,
            });
        }
        let stride = check_stride::<T>(name, stride)?;
        let bytes = check_array(name, pointer.cast_const(), capacity, stride)?;
        regions.add(name, pointer.addr(), bytes, true)?;
        Ok(Self { name, base: pointer.cast(), capacity, stride, element: PhantomData })
    }

    /// An array without gaps.
    ///
    /// # Safety
    /// As [`OutArray::strided`].
    pub(crate) unsafe fn packed(
        regions: &mut Regions,
        name: &'static str,
        pointer: *mut T,
        capacity: usize,
    ) -> Result<Self, Fault> {
        // SAFETY: passed on.
        unsafe { Self::strided(regions, name, pointer, capacity, size_of::<T>() as u32) }
    }

    /// Only a count is wanted: no buffer was given.
    pub(crate) fn is_query(&self) -> bool {
        self.capacity == 0 && self.base.is_null()
    }

    /// `BUFFER_TOO_SMALL` below `needed` elements.
    pub(crate) fn check_room(&self, needed: usize) -> Result<(), Fault> {
        if needed > self.capacity {
            return Err(Fault::too_small(self.name, self.capacity, needed));
        }
        Ok(())
    }

    /// Elements there is room for.
    pub(crate) const fn capacity(&self) -> usize {
        self.capacity
    }

    /// Writes element `index`, which must be below the capacity.
    pub(crate) fn set(&self, index: usize, value: T) {
        assert!(index < self.capacity, "{}[{index}] of {}", self.name, self.capacity);
        // SAFETY: the constructor checked that capacity * stride bytes do not overflow, its caller promised that they exist.
        let to = unsafe { self.base.add(index * self.stride) };
        if self.stride >= size_of::<T>() {
            // SAFETY: `to` has all of T; a length known here makes it one move.
            unsafe { to.cast::<T>().write_unaligned(value) };
            return;
        }
        // SAFETY: both have `stride` bytes; a local overlaps nothing of the caller's.
        unsafe { ptr::copy_nonoverlapping((&raw const value).cast::<u8>(), to, self.stride) };
    }
}

impl OutArray<u8> {
    /// Writes as much of `text` as there is room for, with a NUL behind it.
    pub(crate) fn set_text(&self, text: &str) {
        let Some(room) = self.capacity.checked_sub(1) else { return };
        let end = text.floor_char_boundary(room);
        for (index, &byte) in text.as_bytes()[..end].iter().enumerate() {
            self.set(index, byte);
        }
        self.set(end, 0);
    }
}

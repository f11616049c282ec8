//! The border itself: panics stop here, and every pointer, length and size of a caller is checked here before it is used.
//!
//! The checks cannot know whether a pointer really points at as many readable (or writable) bytes as the caller says.
//! That one promise is the safety contract of each `unsafe fn` below, called "the header's promise" in SAFETY comments:
//! non-NULL, aligned pointers of the caller are valid for the stated number of bytes during the call, inputs are
//! initialised, and nobody else writes inputs or touches outputs meanwhile.

use std::any::Any;
use std::marker::PhantomData;
use std::mem::{self, MaybeUninit};
use std::panic::{self, AssertUnwindSafe};
use std::ptr;

use crate::abi;
use crate::fault::Fault;

/// A type of the header that is copied in and out as bytes.
///
/// # Safety
/// `repr(C)` or primitive, made of integers and raw pointers only: every initialised byte pattern is a value.
pub(crate) unsafe trait Plain: Copy {
    /// Bytes that every caller has.
    const MIN_SIZE: usize;
}

/// A [`Plain`] struct that says its own size.
///
/// # Safety
/// Its first field is `struct_size: u32`.
pub(crate) unsafe trait Sized32: Plain {}

macro_rules! plain {
    ($($type:ident $min:expr;)*) => {$(
        // SAFETY: bindgen makes a repr(C) struct of integers, arrays of them and raw pointers.
        unsafe impl Plain for abi::$type {
            const MIN_SIZE: usize = $min as usize;
        }
        const _: () = assert!($min as usize <= size_of::<abi::$type>());
    )*};
}
macro_rules! sized {
    ($($type:ident $min:expr;)*) => {$(
        plain! { $type $min; }
        // SAFETY: the header puts struct_size first; the assertion below checks its place.
        unsafe impl Sized32 for abi::$type {}
        const _: () = assert!(mem::offset_of!(abi::$type, struct_size) == 0);
    )*};
}
plain! {
    mortise_mix_kind abi::MORTISE_MIX_KIND_MIN_SIZE;
    mortise_node_delta abi::MORTISE_NODE_DELTA_MIN_SIZE;
    mortise_pod_record abi::MORTISE_POD_RECORD_MIN_SIZE;
    mortise_node_score abi::MORTISE_NODE_SCORE_MIN_SIZE;
    mortise_node_reason abi::MORTISE_NODE_REASON_MIN_SIZE;
    mortise_pod_facts abi::MORTISE_POD_FACTS_MIN_SIZE;
    mortise_gang abi::MORTISE_GANG_MIN_SIZE;
    mortise_victim abi::MORTISE_VICTIM_MIN_SIZE;
    mortise_plan_placement abi::MORTISE_PLAN_PLACEMENT_MIN_SIZE;
    mortise_runner_up abi::MORTISE_RUNNER_UP_MIN_SIZE;
    mortise_blocked abi::MORTISE_BLOCKED_MIN_SIZE;
    mortise_checkpoint_warning abi::MORTISE_CHECKPOINT_WARNING_MIN_SIZE;
}
sized! {
    mortise_handshake_info abi::MORTISE_HANDSHAKE_INFO_MIN_SIZE;
    mortise_config abi::MORTISE_CONFIG_MIN_SIZE;
    mortise_pod_request abi::MORTISE_POD_REQUEST_MIN_SIZE;
    mortise_sync_request abi::MORTISE_SYNC_REQUEST_MIN_SIZE;
    mortise_sync_result abi::MORTISE_SYNC_RESULT_MIN_SIZE;
    mortise_score_request abi::MORTISE_SCORE_REQUEST_MIN_SIZE;
    mortise_decision abi::MORTISE_DECISION_MIN_SIZE;
    mortise_fragmentation_report abi::MORTISE_FRAGMENTATION_REPORT_MIN_SIZE;
    mortise_stats_report abi::MORTISE_STATS_REPORT_MIN_SIZE;
    mortise_preempt_request abi::MORTISE_PREEMPT_REQUEST_MIN_SIZE;
    mortise_plan_buffers abi::MORTISE_PLAN_BUFFERS_MIN_SIZE;
    mortise_plan abi::MORTISE_PLAN_MIN_SIZE;
    mortise_error abi::MORTISE_ERROR_MIN_SIZE;
}
macro_rules! primitive {
    ($($type:ty),*) => {$(
        // SAFETY: an integer.
        unsafe impl Plain for $type {
            const MIN_SIZE: usize = size_of::<$type>();
        }
    )*};
}
primitive!(u8, u32, u64, usize);

/// Runs the body of one call: reports its fault, turns a panic into a status, fills `err`.
///
/// # Safety
/// The header's promise for `err`.
pub(crate) unsafe fn enter(
    err: *mut abi::mortise_error,
    body: impl FnOnce(&mut Regions) -> Result<(), Fault>,
) -> abi::mortise_status {
    let mut regions = Regions::default();
    let report = if err.is_null() {
        None
    } else {
        // SAFETY: the caller passes the header's promise on.
        match unsafe { OutStruct::new(&mut regions, "err", err) } {
            Ok(report) => Some(report),
            Err(fault) => return fault.status,
        }
    };
    // The poison flag of the handle, not unwind safety, keeps broken state from being used again.
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| body(&mut regions)))
        .unwrap_or_else(|payload| Err(panicked(payload)));
    let fault = outcome.err();
    let status = fault.as_ref().map_or(OK, |fault| fault.status);
    if let Some(report) = report {
        let room = report.size.saturating_sub(mem::offset_of!(abi::mortise_error, message));
        report.write(error_struct(fault.as_ref(), room));
    }
    status
}

pub(crate) const OK: abi::mortise_status = abi::MORTISE_OK.cast_signed();

#[cold]
fn panicked(payload: Box<dyn Any + Send>) -> Fault {
    let text = payload_text(payload);
    Fault::new(
        abi::MORTISE_ERR_PANIC,
        format!(
            "panic inside the library: {text}; if a handle was given it is poisoned: free it, build a new cluster and report this"
        ),
    )
}

fn payload_text(payload: Box<dyn Any + Send>) -> String {
    let payload = match payload.downcast::<&'static str>() {
        Ok(text) => return (*text).to_owned(),
        Err(payload) => payload,
    };
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => {
            // A payload of another type may panic once more when it is dropped.
            mem::forget(payload);
            "without a message".to_owned()
        }
    }
}

/// `room`: bytes of the caller's message, its NUL included.
fn error_struct(fault: Option<&Fault>, room: usize) -> abi::mortise_error {
    let mut error = abi::mortise_error {
        struct_size: 0,
        status: fault.map_or(OK, |fault| fault.status),
        required: fault.map_or(0, |fault| fault.required),
        message: [0; 256],
    };
    if let Some(fault) = fault {
        let room = room.min(error.message.len());
        let end = fault.message.floor_char_boundary(room.saturating_sub(1));
        for (to, from) in error.message.iter_mut().zip(fault.message.as_bytes()[..end].iter()) {
            *to = from.cast_signed();
        }
    }
    error
}

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
    fn add(
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

fn check_pointer<T>(name: &'static str, pointer: *const T) -> Result<(), Fault> {
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

fn check_size(name: &'static str, what: &str, size: usize, min: usize) -> Result<(), Fault> {
    let max = abi::MORTISE_MAX_STRUCT_SIZE as usize;
    if (min..=max).contains(&size) {
        return Ok(());
    }
    Err(Fault::new(
        abi::MORTISE_ERR_BAD_STRUCT_SIZE,
        format!("{what} of {name} is {size}; it must be in {min}..{max}: set it to sizeof"),
    ))
}

/// # Safety
/// The header's promise for `pointer`.
unsafe fn declared_size<T: Sized32>(name: &'static str, pointer: *const T) -> Result<usize, Fault> {
    check_pointer(name, pointer)?;
    // SAFETY: not NULL, aligned for T and so for its first field, a u32; the header's promise covers at least that.
    let size = unsafe { pointer.cast::<u32>().read() } as usize;
    check_size(name, "struct_size", size, T::MIN_SIZE)?;
    Ok(size)
}

/// Copies what both sides know of one value; the rest is zero.
///
/// # Safety
/// `from` is valid for reads of `size` initialised bytes (padding excepted).
unsafe fn copy_in<T: Plain>(from: *const u8, size: usize) -> T {
    if size >= size_of::<T>() {
        // SAFETY: `from` has all of T, whose every byte pattern is a value; a length known here makes it one move.
        return unsafe { from.cast::<T>().read_unaligned() };
    }
    let mut value = MaybeUninit::<T>::zeroed();
    let known = size;
    // SAFETY: `from` has `size` bytes, `value` has size_of::<T>(); a fresh local overlaps nothing.
    unsafe { ptr::copy_nonoverlapping(from, value.as_mut_ptr().cast::<u8>(), known) };
    // SAFETY: all bytes were zeroed or copied from initialised ones, and T is Plain.
    unsafe { value.assume_init() }
}

/// Whether the bytes that this library does not know are zero.
///
/// # Safety
/// `from` is valid for reads of `size` initialised bytes.
unsafe fn tail_is_zero<T: Plain>(from: *const u8, size: usize) -> bool {
    (size_of::<T>()..size).all(|at| {
        // SAFETY: `at` < `size`.
        let byte = unsafe { from.add(at) };
        // SAFETY: as above; the bytes are initialised.
        unsafe { byte.read() == 0 }
    })
}

#[cold]
fn unknown_tail(name: &str, known: usize) -> Fault {
    Fault::new(
        abi::MORTISE_ERR_NOT_SUPPORTED,
        format!(
            "{name} is set beyond the {known} bytes this library knows; use a newer library or zero the rest"
        ),
    )
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

/// Refuses flag bits that the header does not define.
pub(crate) fn check_flags(name: &str, flags: u32, known: u32) -> Result<(), Fault> {
    if flags & !known == 0 {
        return Ok(());
    }
    Err(Fault::unsupported(
        name,
        format_args!("{flags:#x}"),
        &format!("defined bits are {known:#x}"),
    ))
}

/// Refuses a reserved field that is in use.
pub(crate) fn check_reserved(name: &str, value: u64) -> Result<(), Fault> {
    if value == 0 {
        return Ok(());
    }
    Err(Fault::unsupported(name, value, "reserved fields must be 0"))
}

//! Reads exported bytes, never beyond their end, and says where it stopped.

use crate::error::Error;

pub(crate) struct Reader<'a> {
    what: &'static str,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// `what` names the bytes in errors.
    pub(crate) fn new(what: &'static str, bytes: &'a [u8]) -> Self {
        Self { what, bytes, at: 0 }
    }

    /// What has not been read.
    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    /// Everything must have been read.
    pub(crate) fn end(&self) -> Result<(), Error> {
        if self.at == self.bytes.len() {
            return Ok(());
        }
        let fix = format!("their content ends after {}: give what was exported", self.at);
        Err(Error::invalid(self.what, format!("{} bytes", self.bytes.len()), fix))
    }

    /// A list of names, each with its length before it.
    pub(crate) fn names(&mut self, what: &str, limit: usize) -> Result<Vec<&'a str>, Error> {
        let count = usize::from(self.u8("the number of names")?);
        self.bounded(&format!("number of {what} names"), count, limit)?;
        let mut names = Vec::with_capacity(count);
        for _ in 0..count {
            let length = usize::from(self.u8("the length of a name")?);
            let name = std::str::from_utf8(self.slice(length, "a name")?).map_err(|error| {
                self.invalid(&format!("{what} name"), error, "it must be UTF-8")
            })?;
            names.push(name);
        }
        Ok(names)
    }

    pub(crate) fn slice(&mut self, length: usize, what: &str) -> Result<&'a [u8], Error> {
        let bytes = self.bytes.get(self.at..self.at + length).ok_or_else(|| {
            Error::invalid(
                self.what,
                format!("{} bytes", self.bytes.len()),
                format!("they end within {what}: give all that was exported"),
            )
        })?;
        self.at += length;
        Ok(bytes)
    }

    pub(crate) fn take<const N: usize>(&mut self, what: &str) -> Result<[u8; N], Error> {
        let mut array = [0; N];
        array.copy_from_slice(self.slice(N, what)?);
        Ok(array)
    }

    pub(crate) fn u8(&mut self, what: &str) -> Result<u8, Error> {
        self.take::<1>(what).map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self, what: &str) -> Result<u16, Error> {
        self.take(what).map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self, what: &str) -> Result<u32, Error> {
        self.take(what).map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self, what: &str) -> Result<u64, Error> {
        self.take(what).map(u64::from_le_bytes)
    }

    pub(crate) fn i64(&mut self, what: &str) -> Result<i64, Error> {
        self.take(what).map(i64::from_le_bytes)
    }

    pub(crate) fn bounded(&self, what: &str, value: usize, limit: usize) -> Result<(), Error> {
        if value > limit {
            let place = format!("{what} ({} at {})", self.what, self.at);
            return Err(Error::limit(place, value as i128, limit as i128));
        }
        Ok(())
    }

    pub(crate) fn invalid(
        &self,
        what: &str,
        value: impl std::fmt::Display,
        fix: impl Into<String>,
    ) -> Error {
        Error::invalid(format!("{what} ({} at {})", self.what, self.at), value, fix)
    }
}

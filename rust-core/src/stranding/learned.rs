//! The learned state as bytes: counts, remembered UIDs, the mix that scores now and its prices. With it and the same
//! cluster state another kernel takes the same decisions.
//!
//! Layout, little-endian: magic, version u32, arrivals u64, priced-at u64 (`u64::MAX` for never), CPU-only
//! probability u64 in per mille, then each with a
//! leading u32 count: counted kinds (kind, weight u64) in rising order, UIDs (u128) oldest first, the mix (kind,
//! weight u64, price u64) in its order; last the xxh3-64 of all before it. A kind is cpu i64, cards u16, milli per
//! card u16, models u64; models are bits of the exporting kernel's model ids.

use xxhash_rust::xxh3::xxh3_64;

use super::Stranding;
use super::mix::{Arrivals, Mix, WeightedKind};
use super::params::{MAX_COUNTED_KINDS, MAX_MIX_WEIGHT, MAX_REMEMBERED_UIDS};
use super::scarcity::{MAX_PRICES, Prices};
use crate::error::Error;
use crate::limits::MAX_MIX_KINDS;
use crate::request::{GpuRequest, Kind, check_cpu};
use crate::units::{MilliCpu, ModelSet, PodUid};

const MAGIC: [u8; 8] = *b"mortmix\0";
const VERSION: u32 = 1;
const NEVER: u64 = u64::MAX;

impl Stranding {
    /// The learned state as bytes, at most 1.3 MB.
    #[must_use]
    pub fn export(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend(self.arrivals.counted.to_le_bytes());
        out.extend(self.priced_at.unwrap_or(NEVER).to_le_bytes());
        out.extend(self.measure.take_permille.to_le_bytes());
        let mut counted: Vec<(Kind, u64)> =
            self.arrivals.weights.iter().map(|(&kind, &weight)| (kind, weight)).collect();
        counted.sort_unstable();
        out.extend((counted.len() as u32).to_le_bytes());
        for (kind, weight) in counted {
            put_kind(&mut out, &kind);
            out.extend(weight.to_le_bytes());
        }
        out.extend((self.arrivals.uids.iter().len() as u32).to_le_bytes());
        for uid in self.arrivals.uids.iter() {
            out.extend(uid.0.to_le_bytes());
        }
        out.extend((self.measure.mix.kinds().len() as u32).to_le_bytes());
        for (known, price) in self.measure.mix.kinds().iter().zip(&self.measure.prices.of_kind) {
            put_kind(&mut out, &known.kind);
            out.extend(known.weight.to_le_bytes());
            out.extend(price.to_le_bytes());
        }
        out.extend(xxh3_64(&out).to_le_bytes());
        out
    }

    /// Replaces the learned state by exported bytes. `remap` turns model sets of the exporting kernel into this one's
    /// (model ids are given out in order of appearance). A kernel with a fixed mix keeps it and computes new prices if
    /// the bytes hold another.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] for bytes that are damaged, incomplete or of another version; nothing is changed then.
    pub fn import(
        &mut self,
        bytes: &[u8],
        remap: &dyn Fn(ModelSet) -> ModelSet,
    ) -> Result<(), Error> {
        let state = State::parse(bytes, remap)?;
        let same_mix = !self.fixed || self.measure.mix == state.mix;
        self.arrivals = state.arrivals;
        if !self.fixed {
            self.measure.take_permille = state.take_permille;
            self.adopt(state.mix);
        }
        self.priced_at = None;
        if same_mix {
            self.measure.set_prices(Prices::known(state.prices));
            self.priced_at = state.priced_at;
        }
        Ok(())
    }
}

struct State {
    arrivals: Arrivals,
    mix: Mix,
    prices: Vec<u64>,
    take_permille: u64,
    priced_at: Option<u64>,
}

impl State {
    fn parse(bytes: &[u8], remap: &dyn Fn(ModelSet) -> ModelSet) -> Result<Self, Error> {
        let mut reader = Reader::new(bytes)?;
        let mut arrivals = Arrivals { counted: reader.u64()?, ..Arrivals::default() };
        let priced_at = Some(reader.u64()?).filter(|&at| at != NEVER);
        if priced_at.is_some_and(|at| at > arrivals.counted) {
            return Err(invalid("prices from the future", "the arrival count"));
        }
        let take_permille = reader.u64()?;
        if take_permille > 1000 {
            return Err(invalid("a probability above 1", "CPU-only pods"));
        }
        for _ in 0..reader.count("counted kinds", MAX_COUNTED_KINDS)? {
            let kind = reader.kind(remap)?;
            let weight = reader.weight(u64::MAX >> 16)?;
            *arrivals.weights.entry(kind).or_insert(0) += weight;
        }
        for _ in 0..reader.count("pod UIDs", MAX_REMEMBERED_UIDS)? {
            if !arrivals.uids.insert(PodUid(reader.u128()?)) {
                return Err(invalid("a pod UID twice", "the UIDs"));
            }
        }
        let (mut kinds, mut prices) = (Vec::new(), Vec::new());
        for _ in 0..reader.count("kinds of the mix", MAX_MIX_KINDS)? {
            let kind = reader.kind(remap)?;
            kinds.push(WeightedKind { kind, weight: reader.weight(MAX_MIX_WEIGHT)? });
            prices.push(reader.u64()?);
        }
        let mix = Mix::from_parts(kinds);
        if mix.total() > MAX_MIX_WEIGHT + MAX_MIX_KINDS as u64 {
            return Err(invalid("weights beyond their bound", "the mix"));
        }
        if prices.iter().try_fold(0u64, |sum, &p| sum.checked_add(p)).is_none_or(|s| s > MAX_PRICES)
        {
            return Err(invalid("prices beyond their bound", "the mix"));
        }
        reader.end()?;
        Ok(Self { arrivals, mix, prices, take_permille, priced_at })
    }
}

fn put_kind(out: &mut Vec<u8>, kind: &Kind) {
    out.extend(kind.cpu.0.to_le_bytes());
    out.extend(u16::from(kind.gpu.count()).to_le_bytes());
    out.extend(kind.gpu.milli().get().to_le_bytes());
    out.extend(kind.models.0.to_le_bytes());
}

fn invalid(value: &str, place: &str) -> Error {
    Error::invalid(
        format!("learned state ({place})"),
        value,
        "import bytes exported by this version, or start without a learned state",
    )
}

/// Takes values off the front.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8]) -> Result<Self, Error> {
        let (body, sum) = bytes.split_last_chunk().ok_or_else(|| invalid("too short", "length"))?;
        let mut reader = Self { rest: body };
        if reader.take::<8>()? != MAGIC {
            return Err(invalid("something else", "magic"));
        }
        let version = u32::from_le_bytes(reader.take()?);
        if version != VERSION {
            return Err(invalid(&format!("version {version}, not {VERSION}"), "version"));
        }
        if xxh3_64(body) != u64::from_le_bytes(*sum) {
            return Err(invalid("damaged", "checksum"));
        }
        Ok(reader)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (value, rest) =
            self.rest.split_first_chunk().ok_or_else(|| invalid("cut off", "length"))?;
        self.rest = rest;
        Ok(*value)
    }

    fn u64(&mut self) -> Result<u64, Error> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    fn u128(&mut self) -> Result<u128, Error> {
        Ok(u128::from_le_bytes(self.take()?))
    }

    fn count(&mut self, what: &'static str, limit: usize) -> Result<u32, Error> {
        let count = u32::from_le_bytes(self.take()?);
        if count as usize > limit {
            return Err(Error::limit(format!("learned state: {what}"), count, limit as i128));
        }
        Ok(count)
    }

    fn weight(&mut self, limit: u64) -> Result<u64, Error> {
        match self.u64()? {
            weight if (1..=limit).contains(&weight) => Ok(weight),
            weight => Err(invalid(&format!("weight {weight}"), "a kind")),
        }
    }

    fn kind(&mut self, remap: &dyn Fn(ModelSet) -> ModelSet) -> Result<Kind, Error> {
        let cpu = MilliCpu(i64::from_le_bytes(self.take()?));
        check_cpu("learned state: cpu of a kind", cpu)?;
        let count = u16::from_le_bytes(self.take()?);
        let gpu = GpuRequest::new(count, u16::from_le_bytes(self.take()?))?;
        Ok(Kind { cpu, gpu, models: remap(ModelSet(self.u64()?)) })
    }

    fn end(&self) -> Result<(), Error> {
        if self.rest.is_empty() { Ok(()) } else { Err(invalid("bytes left over", "length")) }
    }
}

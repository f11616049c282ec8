//! The learned state as bytes: what decisions depend on beside the cluster.

use super::Kernel;
use super::mig::MigLearned;
use crate::cluster::Reader;
use crate::error::Error;
use crate::limits::MAX_MODELS;
use crate::mig::{PROFILE_NAME_COUNT, ProfileName};
use crate::units::{ModelId, ModelSet};

const MAGIC: [u8; 4] = *b"MLS2";

impl Kernel {
    /// The learned mix with its prices, the names of the models its kinds speak of, and the number of decisions (which
    /// the `random` strategy draws from). Little-endian.
    #[must_use]
    pub fn export_learned(&self) -> Vec<u8> {
        let models = self.cluster.models();
        let mut bytes = MAGIC.to_vec();
        bytes.extend(self.decisions.to_le_bytes());
        bytes.push(models.len() as u8);
        for name in (0..models.len()).filter_map(|id| models.name(ModelId(id as u8))) {
            bytes.push(name.len() as u8);
            bytes.extend(name.as_bytes());
        }
        self.mig.export(&mut bytes);
        bytes.extend(self.scorer.stranding().export());
        bytes
    }

    /// Replaces the learned state by exported bytes. Models are matched by name and interned where they are new; a mix
    /// that was given in the configuration stays.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] or [`Error::LimitExceeded`] naming what is wrong and where; nothing is changed then.
    pub fn import_learned(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let mut reader = Reader::new("learned bytes", bytes);
        if reader.take::<4>("the magic number")? != MAGIC {
            return Err(Error::invalid(
                "learned bytes",
                format!("{:02x?}...", &bytes[..4]),
                "they do not start with MLS2: give bytes exported by this version",
            ));
        }
        let decisions = reader.u64("the number of decisions")?;
        let names = reader.names("model", MAX_MODELS)?;
        // On a copy, so that a mistake further on leaves no name behind.
        let mut models = self.cluster.models().clone();
        let mut ids = Vec::with_capacity(names.len());
        for name in names {
            ids.push(models.intern(name)?);
        }
        let remap = |set: ModelSet| {
            if set == ModelSet::ANY {
                return set;
            }
            let allowed = ids.iter().enumerate().filter(|&(old, _)| set.0 >> old & 1 == 1);
            allowed.fold(ModelSet::EMPTY, |set, (_, &id)| set.with(id))
        };
        let mig = read_mig(&mut reader)?;
        self.scorer.stranding_mut().import(reader.rest(), &remap)?;
        self.mig.import(mig);
        *self.cluster.models_mut() = models;
        self.decisions = decisions;
        Ok(())
    }
}

fn read_mig(reader: &mut Reader<'_>) -> Result<MigLearned, Error> {
    let arrivals = reader.u64("the number of MIG requests")?;
    let count = usize::from(reader.u8("the number of MIG profiles")?);
    reader.bounded("number of MIG profiles", count, PROFILE_NAME_COUNT)?;
    let mut profiles = Vec::with_capacity(count);
    for _ in 0..count {
        let length = usize::from(reader.u8("the length of a name")?);
        let bytes = reader.slice(length, "a name")?;
        let name = std::str::from_utf8(bytes).ok().and_then(ProfileName::named);
        let counted = reader.u64("the weight of a MIG profile")?;
        let weight = reader.u64("the weight of a MIG profile")?;
        // One that this version does not know is forgotten.
        profiles.extend(name.map(|name| (name, counted, weight)));
    }
    Ok(MigLearned { arrivals, profiles })
}

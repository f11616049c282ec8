//! The learned state as bytes: what decisions depend on beside the cluster.

use super::Kernel;
use crate::cluster::Reader;
use crate::error::Error;
use crate::limits::MAX_MODELS;
use crate::units::{ModelId, ModelSet};

const MAGIC: [u8; 4] = *b"MLS1";

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
                "they do not start with MLS1: give bytes exported by this version",
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
        self.scorer.stranding_mut().import(reader.rest(), &remap)?;
        *self.cluster.models_mut() = models;
        self.decisions = decisions;
        Ok(())
    }
}

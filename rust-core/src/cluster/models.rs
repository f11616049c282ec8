//! Names of GPU models, interned in order of appearance.

use crate::error::Error;
use crate::limits::{MAX_MODEL_NAME, MAX_MODELS};
use crate::units::{ModelId, ModelSet};

/// The models seen on nodes so far. Never forgets a name: an id stays what it is.
#[derive(Debug, Clone, Default)]
pub struct ModelTable {
    names: Vec<String>,
}

impl ModelTable {
    /// The id of `name`, a new one if it was not seen before.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] for an empty name, [`Error::LimitExceeded`] for a name above 63 bytes or a 65th model.
    pub fn intern(&mut self, name: &str) -> Result<ModelId, Error> {
        if let Some(id) = self.id(name) {
            return Ok(id);
        }
        if name.is_empty() {
            return Err(Error::invalid(
                "model name",
                "empty",
                "name the model, or give the node no model",
            ));
        }
        if name.len() > MAX_MODEL_NAME {
            let shown: String = name.chars().take(MAX_MODEL_NAME).collect();
            return Err(Error::limit(
                format!("length of model name {shown:?}..."),
                name.len() as i128,
                MAX_MODEL_NAME as i128,
            ));
        }
        if self.names.len() == MAX_MODELS {
            return Err(Error::limit(
                format!("number of models with {name:?}"),
                MAX_MODELS as i128 + 1,
                MAX_MODELS as i128,
            ));
        }
        self.names.push(name.to_owned());
        Ok(ModelId(self.names.len() as u8 - 1))
    }

    /// The id of a known name.
    #[must_use]
    pub fn id(&self, name: &str) -> Option<ModelId> {
        self.names.iter().position(|known| known == name).map(|index| ModelId(index as u8))
    }

    /// The set of the known ones among `names`; names no node has are left out, so the set may match nothing.
    #[must_use]
    pub fn set(&self, names: &[&str]) -> ModelSet {
        names.iter().filter_map(|name| self.id(name)).fold(ModelSet::EMPTY, ModelSet::with)
    }

    /// The name of an id, `None` for [`ModelId::NONE`] and ids never given out.
    #[must_use]
    pub fn name(&self, id: ModelId) -> Option<&str> {
        self.names.get(usize::from(id.0)).map(String::as_str)
    }

    /// Number of models.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// No model seen yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

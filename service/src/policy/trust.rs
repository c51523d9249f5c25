// SPDX-License-Identifier: Apache-2.0
//! Which policies are put in force that come to the device after its ROM was built.

use super::error::PolicyError;
use super::keys::Keys;
use super::model::Policy;
use super::signed::{split, SignatureError};

/// Why a policy is not put in force.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It has a mistake.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// Its signature is none.
    #[error("the policy is refused: {0}")]
    Signature(#[from] SignatureError),
    /// It has no signature.
    #[error("the policy is refused: it is not signed, and this device takes signed policies only: 'hindsight device policy sign' signs it")]
    Unsigned,
    /// A newer one was in force.
    #[error("the policy is refused: its revision is {revision}, and a policy of revision {accepted} was in force on this device: sign one with this revision or a higher one")]
    Old {
        /// Its revision.
        revision: u64,
        /// The highest one that was in force.
        accepted: u64,
    },
    /// The ROM has a newer one.
    #[error("the policy is refused: its revision is {revision}, and the ROM's own policy has revision {rom}: sign one with this revision or a higher one")]
    OlderThanRom {
        /// Its revision.
        revision: u64,
        /// The one of the policy of the service's start.
        rom: u64,
    },
    /// It may be older than another one.
    #[error("the policy is refused: this device has lost the revision of the policies before, so that an old policy cannot be told from a new one: only the ROM's own policy is used until the device's data are erased")]
    RevisionLost,
}

/// The highest revision of a signed policy that was ever in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// Up to this one; 0 before the first policy.
    UpTo(u64),
    /// It is lost.
    Lost,
}

/// Whose policies are put in force.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// Keys of signed policies. `None`: signatures are not looked at.
    pub keys: Option<Keys>,
    /// Policies without a signature are taken as well.
    pub takes_unsigned: bool,
}

/// A policy that may be put in force.
#[derive(Clone, Debug, PartialEq)]
pub struct Admitted {
    /// The policy.
    pub policy: Policy,
    /// The name of the key that has signed it; `None`: no signature was looked at.
    pub key: Option<String>,
}

impl Trust {
    /// Looks at the signature and the revision of a policy file, then reads it. `rom` is the revision of the policy of the service's start.
    ///
    /// # Errors
    /// If it is not signed as it must be, is older than another one, or has a mistake.
    pub fn admit(&self, file: &str, accepted: Accepted, rom: u64) -> Result<Admitted, Refused> {
        let admitted = self.read(file)?;
        if admitted.key.is_none() {
            return Ok(admitted);
        }
        let revision = admitted.policy.revision;
        match accepted {
            Accepted::Lost => Err(Refused::RevisionLost),
            Accepted::UpTo(accepted) if revision < accepted => {
                Err(Refused::Old { revision, accepted })
            }
            Accepted::UpTo(_) if revision < rom => Err(Refused::OlderThanRom { revision, rom }),
            Accepted::UpTo(_) => Ok(admitted),
        }
    }

    /// As [`admit`](Self::admit), of any revision.
    ///
    /// # Errors
    /// If it is not signed as it must be, or has a mistake.
    pub fn read(&self, file: &str) -> Result<Admitted, Refused> {
        // Nobody can have the service hash more than that.
        Policy::check_length(file)?;
        let key = self.signer(file)?;
        let policy = Policy::parse(file)?;
        Ok(Admitted { policy, key })
    }

    /// The name of the key that has signed the file.
    fn signer(&self, file: &str) -> Result<Option<String>, Refused> {
        let Some(keys) = &self.keys else {
            return Ok(None);
        };
        let Some(signed) = split(file)? else {
            return match self.takes_unsigned {
                true => Ok(None),
                false => Err(Refused::Unsigned),
            };
        };
        let name = signed.key.to_owned();
        match keys.has_signed(signed.key, signed.text, signed.signature) {
            Some(true) => Ok(Some(name)),
            Some(false) => Err(SignatureError::Wrong(name).into()),
            None => {
                let names: Vec<&str> = keys.names().collect();
                let known = match names.is_empty() {
                    true => "no key".to_owned(),
                    false => names.join(", "),
                };
                Err(SignatureError::Key { name, known }.into())
            }
        }
    }
}

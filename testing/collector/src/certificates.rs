// SPDX-License-Identifier: Apache-2.0
//! Certificates of one authority, and of another one that nobody trusts.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::ServerConfig;

type Problem = Box<dyn std::error::Error + Send + Sync>;

pub(crate) struct Certificates {
    pub(crate) authority: String,
    pub(crate) good: Arc<ServerConfig>,
    pub(crate) wrong_authority: Arc<ServerConfig>,
    pub(crate) wrong_host: Arc<ServerConfig>,
}

fn authority() -> Result<(String, Issuer<'static, KeyPair>), Problem> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(Vec::<String>::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = params.self_signed(&key)?;
    Ok((certificate.pem(), Issuer::new(params, key)))
}

fn server(issuer: &Issuer<'static, KeyPair>, host: &str) -> Result<Arc<ServerConfig>, Problem> {
    let key = KeyPair::generate()?;
    let params = CertificateParams::new(vec![host.to_owned()])?;
    let certificate = params.signed_by(&key, issuer)?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)?;
    Ok(Arc::new(config))
}

impl Certificates {
    pub(crate) fn new() -> Result<Self, Problem> {
        let (pem, trusted) = authority()?;
        let (_, other) = authority()?;
        Ok(Certificates {
            authority: pem,
            good: server(&trusted, "localhost")?,
            wrong_authority: server(&other, "localhost")?,
            wrong_host: server(&trusted, "collector.example")?,
        })
    }
}

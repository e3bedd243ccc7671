//! TLS to the database; `sslmode` of the address decides what is verified. Without the feature
//! `postgres-tls`, `no_tls.rs` is used instead of this file.

use std::{path::Path, sync::Arc};

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_cert_signed_by_trust_anchor, verify_server_name,
    },
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
    server::ParsedCertificate,
};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::address::{Address, Trust};
use crate::StoreError;

pub(super) type TlsConnector = MakeRustlsConnect;

/// Returns a TLS connector that verifies what the address requires; `None` without encryption.
pub(super) fn connector(address: &Address) -> Result<Option<TlsConnector>, StoreError> {
    let provider = Arc::new(ring::default_provider());
    let check = match &address.trust {
        Trust::Off => return Ok(None),
        Trust::Anyone => Check::Anyone,
        Trust::Chain(path) => Check::Chain(Roots::read(path)?),
        Trust::ChainAndName(path) => Check::ChainAndName(Roots::read(path)?),
    };
    let verifier = Verifier { check, provider: provider.clone() };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| StoreError::Config(format!("TLS cannot be set up: {error}").into()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok(Some(MakeRustlsConnect::new(config)))
}

#[derive(Debug)]
enum Check {
    Anyone,
    Chain(Roots),
    ChainAndName(Roots),
}

/// Trusted certificates of a file.
#[derive(Debug)]
struct Roots {
    store: RootCertStore,
    /// The certificates of the file themselves, for a server whose own certificate is one of them.
    pinned: Vec<CertificateDer<'static>>,
}

impl Roots {
    fn read(path: &Path) -> Result<Self, StoreError> {
        let bad = |reason: String| {
            StoreError::Config(format!("sslrootcert={}: {reason}", path.display()).into())
        };
        let pinned: Vec<_> = CertificateDer::pem_file_iter(path)
            .and_then(Iterator::collect)
            .map_err(|error| bad(error.to_string()))?;
        let mut store = RootCertStore::empty();
        let (added, _) = store.add_parsable_certificates(pinned.iter().cloned());
        if added == 0 {
            return Err(bad("there is no certificate in it".to_owned()));
        }
        Ok(Self { store, pinned })
    }
}

/// Verifier of the server's certificate. `sslmode` decides whether the chain and the host name are
/// checked. The signatures of the handshake are always checked.
#[derive(Debug)]
struct Verifier {
    check: Check,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    fn verify_chain(
        &self,
        roots: &Roots,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        // A self-signed certificate is its own root, but webpki does not accept a CA certificate as
        // the certificate of a server. So it is compared with the whole file entry, which is at
        // least as strict.
        if roots.pinned.iter().any(|pinned| pinned == end_entity) {
            return Ok(());
        }
        let parsed = ParsedCertificate::try_from(end_entity)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(
            &parsed,
            &roots.store,
            intermediates,
            now,
            algorithms,
        )
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match &self.check {
            Check::Anyone => {}
            Check::Chain(roots) => self.verify_chain(roots, end_entity, intermediates, now)?,
            Check::ChainAndName(roots) => {
                self.verify_chain(roots, end_entity, intermediates, now)?;
                let parsed = ParsedCertificate::try_from(end_entity)
                    .map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
                verify_server_name(&parsed, server_name)?;
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

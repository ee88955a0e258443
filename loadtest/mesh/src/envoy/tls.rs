//! Mutual TLS between Envoys: an authority, and one certificate for all of them.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, Error, IsCa, KeyPair};
use serde_json::{Value, json};

/// The name in the certificate.
const NAME: &str = "mesh.test";

/// An authority, and a certificate signed by it with its key, as PEM texts.
#[derive(Clone, Debug)]
pub struct Certificates {
    authority: String,
    certificate: String,
    key: String,
}

impl Certificates {
    /// Makes them.
    ///
    /// # Errors
    /// There is no randomness for a key.
    pub fn new() -> Result<Self, Error> {
        let mut params = CertificateParams::default();
        // It must differ from the certificate's name, or the certificate would look self-signed.
        params.distinguished_name.push(DnType::CommonName, "authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new([NAME.to_owned()])?.signed_by(&key, &authority)?;
        Ok(Self { authority: authority.pem(), certificate: certificate.pem(), key: key.serialize_pem() })
    }

    /// Makes a listener require a certificate.
    pub fn require(&self, listener: &mut Value) {
        let context = json!({"require_client_certificate": true, "common_tls_context": self.common()});
        listener["filter_chains"][0]["transport_socket"] = socket("DownstreamTlsContext", context);
    }

    /// Makes a cluster present a certificate, and require one.
    pub fn present(&self, cluster: &mut Value) {
        let context = json!({"sni": NAME, "common_tls_context": self.common()});
        cluster["transport_socket"] = socket("UpstreamTlsContext", context);
    }

    fn common(&self) -> Value {
        json!({
            "tls_certificates": [{
                "certificate_chain": {"inline_string": self.certificate},
                "private_key": {"inline_string": self.key},
            }],
            "validation_context": {
                "trusted_ca": {"inline_string": self.authority},
                "match_typed_subject_alt_names": [{"san_type": "DNS", "matcher": {"exact": NAME}}],
            },
        })
    }
}

fn socket(kind: &str, mut context: Value) -> Value {
    context["@type"] = json!(format!("type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.{kind}"));
    json!({"name": "envoy.transport_sockets.tls", "typed_config": context})
}

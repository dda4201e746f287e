//! SeaweedFS's access tokens for file ids: JSON Web Tokens with one claim, signed with HMAC-SHA256.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use ring::hmac;

#[derive(Clone, Debug)]
pub(super) struct Signer {
    key: hmac::Key,
    claims: String,
}

impl Signer {
    pub(super) fn new(secret: &str) -> Signer {
        Signer { key: hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), claims: String::new() }
    }

    /// Appends the token of a file id. It does not expire, so it is as secret as the key.
    pub(super) fn sign(&mut self, file_id: &str, to: &mut String) {
        let begin = to.len();
        self.claims.clear();
        self.claims.push_str("{\"fid\":\"");
        self.claims.push_str(file_id);
        self.claims.push_str("\"}");
        // {"alg":"HS256","typ":"JWT"}
        to.push_str("eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.");
        BASE64.encode_string(&self.claims, to);
        let tag = hmac::sign(&self.key, &to.as_bytes()[begin..]);
        to.push('.');
        BASE64.encode_string(tag, to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_a_head_a_claim_and_what_signs_both() {
        let mut token = "before ".to_owned();
        Signer::new("secret").sign("3,01637037d6", &mut token);
        let parts: Vec<&str> = token.strip_prefix("before ").unwrap().split('.').collect();
        let decoded: Vec<Vec<u8>> = parts.iter().map(|part| BASE64.decode(part).unwrap()).collect();
        assert_eq!(decoded[0], br#"{"alg":"HS256","typ":"JWT"}"#);
        assert_eq!(decoded[1], br#"{"fid":"3,01637037d6"}"#);
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"secret");
        assert!(hmac::verify(&key, format!("{}.{}", parts[0], parts[1]).as_bytes(), &decoded[2]).is_ok());
    }
}

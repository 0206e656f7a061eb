//! The prelogin exchange: version and encryption, before anybody logs in.

use super::reader::{Parsed, Reader, malformed};

/// What one side says about encryption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offer {
    /// Able to, but only the login needs it.
    Off,
    /// Everything is to be encrypted.
    On,
    /// Not able to.
    NotSupported,
    /// Everything must be encrypted.
    Required,
}

impl Offer {
    fn from_byte(byte: u8) -> Option<Offer> {
        // Bit 7 announces a client certificate, which nothing here asks for.
        match byte & 0x7F {
            0 => Some(Offer::Off),
            1 => Some(Offer::On),
            2 => Some(Offer::NotSupported),
            3 => Some(Offer::Required),
            _ => None,
        }
    }

    fn to_byte(self) -> u8 {
        match self {
            Offer::Off => 0,
            Offer::On => 1,
            Offer::NotSupported => 2,
            Offer::Required => 3,
        }
    }
}

/// What the client's prelogin said, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Prelogin {
    pub(crate) encryption: Offer,
    /// The client asked whether federated authentication is required.
    pub(crate) asks_fed_auth: bool,
}

mod option {
    pub(super) const VERSION: u8 = 0;
    pub(super) const ENCRYPTION: u8 = 1;
    pub(super) const INSTANCE: u8 = 2;
    pub(super) const THREAD_ID: u8 = 3;
    pub(super) const MARS: u8 = 4;
    pub(super) const FED_AUTH_REQUIRED: u8 = 6;
    pub(super) const TERMINATOR: u8 = 0xFF;
}

impl Prelogin {
    /// Reads a prelogin message. A client that says nothing about encryption has none.
    pub(crate) fn parse(body: &[u8]) -> Parsed<Prelogin> {
        let mut prelogin = Prelogin {
            encryption: Offer::NotSupported,
            asks_fed_auth: false,
        };
        let mut table = Reader::new(body);
        loop {
            let token = table.u8()?;
            if token == option::TERMINATOR {
                return Ok(prelogin);
            }
            let offset = usize::from(u16::from_be_bytes(table.array()?));
            let length = usize::from(u16::from_be_bytes(table.array()?));
            let Some(data) = body.get(offset..offset + length) else {
                return malformed(format!("prelogin option {token} lies outside of its message"));
            };
            match (token, data.first()) {
                (option::ENCRYPTION, Some(&byte)) => match Offer::from_byte(byte) {
                    Some(offer) => prelogin.encryption = offer,
                    None => return malformed(format!("unknown encryption option {byte}")),
                },
                (option::FED_AUTH_REQUIRED, Some(_)) => prelogin.asks_fed_auth = true,
                _ => {}
            }
        }
    }
}

/// Builds the server's answer. `version` is major, minor, build. MARS is declined. `fed_auth_required` is said to a client
/// that asked.
pub(crate) fn answer(version: (u8, u8, u16), encryption: Offer, client: Prelogin, fed_auth_required: bool) -> Vec<u8> {
    let [build_hi, build_lo] = version.2.to_be_bytes();
    let mut options: Vec<(u8, Vec<u8>)> = vec![
        (option::VERSION, vec![version.0, version.1, build_hi, build_lo, 0, 0]),
        (option::ENCRYPTION, vec![encryption.to_byte()]),
        (option::INSTANCE, vec![0]),
        (option::THREAD_ID, Vec::new()),
        (option::MARS, vec![0]),
    ];
    if client.asks_fed_auth {
        options.push((option::FED_AUTH_REQUIRED, vec![u8::from(fed_auth_required)]));
    }
    let mut offset = options.len() * 5 + 1;
    let mut out = Vec::with_capacity(64);
    for (token, data) in &options {
        out.push(*token);
        out.extend((offset as u16).to_be_bytes());
        out.extend((data.len() as u16).to_be_bytes());
        offset += data.len();
    }
    out.push(option::TERMINATOR);
    out.extend(options.into_iter().flat_map(|(_, data)| data));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_can_be_read_back() {
        let client = Prelogin {
            encryption: Offer::On,
            asks_fed_auth: true,
        };
        let bytes = answer((16, 0, 4135), Offer::Required, client, true);
        assert_eq!(
            Prelogin::parse(&bytes).unwrap(),
            Prelogin {
                encryption: Offer::Required,
                asks_fed_auth: true
            }
        );
        assert_eq!(bytes[31..37], [16, 0, 0x10, 0x27, 0, 0]);
        assert_eq!(bytes.last(), Some(&1));
    }

    #[test]
    fn an_option_outside_of_the_message_is_refused() {
        assert!(Prelogin::parse(&[1, 0, 60, 0, 1, 0xFF]).is_err());
        assert!(Prelogin::parse(&[1, 0]).is_err());
    }
}

//! The login message.

use super::reader::{Parsed, Reader, malformed, utf16};

/// TDS 7.4, as a client and the server write it.
pub(crate) const TDS_7_4: u32 = 0x7400_0004;
/// TDS 8.0: what a client says after TLS with ALPN.
pub(crate) const TDS_8_0: u32 = 0x0800_0000;
/// TDS 7.3 revision B: the oldest version with rows that leave out NULLs.
pub(crate) const TDS_7_3_B: u32 = 0x730B_0003;

const LOGIN_HEADER_LEN: usize = 36;
const FLAGS2_INTEGRATED_SECURITY: u8 = 0x80;
const FLAGS3_EXTENSION: u8 = 0x10;
const TYPE_FLAGS_READ_ONLY: u8 = 0x20;
/// The feature extension of federated authentication.
pub(crate) const FEATURE_FEDERATED: u8 = 0x02;
/// Its library, in the upper seven bits of its options: a security token, which follows.
const LIBRARY_SECURITY_TOKEN: u8 = 0x01;
/// The lowest bit: the prelogin's answer said that federated authentication is required.
const FED_AUTH_ECHO: u8 = 0x01;
const FEATURE_END: u8 = 0xFF;

/// What a client asked for. `Debug` leaves the password out.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Login7 {
    pub(crate) tds_version: u32,
    pub(crate) packet_size: u32,
    pub(crate) user: String,
    pub(crate) password: String,
    pub(crate) application: String,
    pub(crate) server: String,
    /// Empty: the login's default database.
    pub(crate) database: String,
    /// The client only reads: an availability group may send it to a secondary.
    pub(crate) read_only: bool,
    /// The client wants Windows authentication.
    pub(crate) integrated: bool,
    /// An access token, instead of a login and its password.
    pub(crate) token: Option<String>,
    /// What the client says that the prelogin's answer said of federated authentication.
    pub(crate) fed_auth_echo: bool,
    /// Ids of the feature extensions that it offered; `None` when it has no such block.
    pub(crate) features: Option<Vec<u8>>,
}

impl std::fmt::Debug for Login7 {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Login7")
            .field("user", &self.user)
            .field("application", &self.application)
            .field("database", &self.database)
            .finish_non_exhaustive()
    }
}

impl Login7 {
    /// Whether the client offered a feature extension.
    pub(crate) fn knows(&self, feature: u8) -> bool {
        self.features
            .as_ref()
            .is_some_and(|features| features.contains(&feature))
    }

    /// Reads the message.
    pub(crate) fn parse(body: &[u8]) -> Parsed<Login7> {
        let mut reader = Reader::new(body);
        let length = reader.u32()? as usize;
        if length > body.len() {
            return malformed("the login is longer than its packets");
        }
        let tds_version = reader.u32()?;
        let packet_size = reader.u32()?;
        let _client_version_pid_connection = reader.bytes(12)?;
        let [_flags1, flags2, type_flags, flags3] = reader.array()?;
        let _time_zone_and_lcid = reader.bytes(8)?;
        debug_assert_eq!(body.len() - reader.remaining(), LOGIN_HEADER_LEN);
        let mut field = |scale: usize| -> Parsed<&[u8]> {
            let offset = usize::from(reader.u16()?);
            let count = usize::from(reader.u16()?) * scale;
            // Some clients give unused fields an offset of 0.
            match body.get(offset..offset + count) {
                Some(bytes) => Ok(bytes),
                None => malformed("a login field lies outside of its message"),
            }
        };
        let _host = field(2)?;
        let user = utf16(field(2)?);
        let password = clear_password(field(2)?);
        let application = utf16(field(2)?);
        let server = utf16(field(2)?);
        let extension = field(1)?;
        let _library = field(2)?;
        let _language = field(2)?;
        let database = utf16(field(2)?);
        let (features, token) = if flags3 & FLAGS3_EXTENSION != 0 {
            let (ids, token) = read_features(body, extension)?;
            (Some(ids), token)
        } else {
            (None, None)
        };
        let (token, fed_auth_echo) = token.map_or((None, false), |(token, echo)| (Some(token), echo));
        Ok(Login7 {
            tds_version,
            packet_size,
            user,
            password,
            application,
            server,
            database,
            read_only: type_flags & TYPE_FLAGS_READ_ONLY != 0,
            integrated: flags2 & FLAGS2_INTEGRATED_SECURITY != 0,
            token,
            fed_auth_echo,
            features,
        })
    }
}

/// Undoes the obfuscation: each byte was XORed with 0xA5 after its nibbles had been swapped.
fn clear_password(bytes: &[u8]) -> String {
    let clear: Vec<u8> = bytes.iter().map(|byte| (byte ^ 0xA5).rotate_left(4)).collect();
    utf16(&clear)
}

/// An access token, and what the client repeats of the prelogin: whether the server requires one.
type EchoedToken = (String, bool);

/// The extension field holds the offset of the features, each of which is an id, a length and data. Their ids, and the
/// access token with its echo if there is one.
fn read_features(body: &[u8], extension: &[u8]) -> Parsed<(Vec<u8>, Option<EchoedToken>)> {
    let offset = Reader::new(extension).u32()? as usize;
    let Some(block) = body.get(offset..) else {
        return malformed("the feature extensions lie outside of the login");
    };
    let mut reader = Reader::new(block);
    let (mut ids, mut token) = (Vec::new(), None);
    loop {
        let id = reader.u8()?;
        if id == FEATURE_END {
            return Ok((ids, token));
        }
        let length = reader.u32()? as usize;
        let data = reader.bytes(length)?;
        if id == FEATURE_FEDERATED {
            token = Some(security_token(data)?);
        }
        ids.push(id);
    }
}

/// Options, the token's length, the token as UTF-16, and maybe a nonce ([MS-TDS] 2.2.6.4). The token, and the echo.
fn security_token(data: &[u8]) -> Parsed<EchoedToken> {
    let mut reader = Reader::new(data);
    let options = reader.u8()?;
    if options >> 1 != LIBRARY_SECURITY_TOKEN {
        return malformed("mssql-sim knows federated authentication by a security token alone");
    }
    let length = reader.u32()? as usize;
    Ok((utf16(reader.bytes(length)?), options & FED_AUTH_ECHO != 0))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A login as a client writes it.
    pub(crate) fn message(user: &str, password: &str, database: &str, features: &[(u8, &[u8])]) -> Vec<u8> {
        let mut body = vec![0; 94];
        body[4..8].copy_from_slice(&TDS_7_4.to_le_bytes());
        body[8..12].copy_from_slice(&8000_u32.to_le_bytes());
        body[27] = FLAGS3_EXTENSION;
        let put = |body: &mut Vec<u8>, at: usize, bytes: Vec<u8>, scale: usize| {
            let offset = body.len() as u16;
            let count = (bytes.len() / scale) as u16;
            body[at..at + 2].copy_from_slice(&offset.to_le_bytes());
            body[at + 2..at + 4].copy_from_slice(&count.to_le_bytes());
            body.extend(bytes);
        };
        let wide = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
        put(&mut body, 40, wide(user), 2);
        let hidden = wide(password).iter().map(|byte| byte.rotate_left(4) ^ 0xA5).collect();
        put(&mut body, 44, hidden, 2);
        put(&mut body, 68, wide(database), 2);
        let block = (body.len() + 4) as u32;
        put(&mut body, 56, block.to_le_bytes().to_vec(), 1);
        for (id, data) in features {
            body.push(*id);
            body.extend((data.len() as u32).to_le_bytes());
            body.extend_from_slice(data);
        }
        body.push(FEATURE_END);
        let length = (body.len() as u32).to_le_bytes();
        body[..4].copy_from_slice(&length);
        body
    }

    #[test]
    fn a_login_is_read_with_its_password_and_features() {
        let bytes = message("sa", "p€ss wörd", "shop", &[(4, &[1]), (10, &[1])]);
        let login = Login7::parse(&bytes).unwrap();
        assert_eq!(
            (login.user.as_str(), login.password.as_str(), login.database.as_str()),
            ("sa", "p€ss wörd", "shop")
        );
        assert_eq!((login.packet_size, login.tds_version), (8000, TDS_7_4));
        assert_eq!(login.features, Some(vec![4, 10]));
        assert!(!format!("{login:?}").contains("wörd"));
    }

    /// The data of the feature extension for a token.
    pub(crate) fn fed_auth(token: &str, echo: bool) -> Vec<u8> {
        let token: Vec<u8> = token.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let mut data = vec![(LIBRARY_SECURITY_TOKEN << 1) | u8::from(echo)];
        data.extend((token.len() as u32).to_le_bytes());
        data.extend(&token);
        data
    }

    #[test]
    fn an_access_token_is_read_and_not_shown() {
        let mut data = fed_auth("eyJ.töken.x", true);
        let mut bytes = message("", "", "shop", &[(FEATURE_FEDERATED, &data)]);
        bytes[26] |= TYPE_FLAGS_READ_ONLY;
        let login = Login7::parse(&bytes).unwrap();
        assert_eq!(login.token.as_deref(), Some("eyJ.töken.x"));
        assert!(login.read_only && login.fed_auth_echo);
        assert!(!format!("{login:?}").contains("töken"));
        data[0] = 2 << 1;
        assert!(Login7::parse(&message("", "", "shop", &[(FEATURE_FEDERATED, &data)])).is_err());
    }

    #[test]
    fn a_cut_login_is_refused_at_every_length() {
        let bytes = message("sa", "x", "shop", &[(4, &[1])]);
        for length in 0..bytes.len() {
            assert!(Login7::parse(&bytes[..length]).is_err(), "cut at {length}");
        }
    }
}

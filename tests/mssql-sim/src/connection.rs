//! One client, from its first byte to its last: prelogin, TLS, login, then requests.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;

use mssql_sim_engine::result::{SinkClosed, SqlError};

use crate::faults::{FaultKind, LoginStep};
use crate::logins;
use crate::messages;
use crate::response::{Out, Response};
use crate::server::{Encryption, Shared};
use crate::session::ClientSession;
use crate::wire::login7::{FEATURE_FEDERATED, Login7, TDS_7_3_B, TDS_8_0};
use crate::wire::packet::{self, kind};
use crate::wire::prelogin::{self, Offer, Prelogin};
use crate::wire::reader::Malformed;
use crate::wire::tokens::{self, Done, DoneKind, EnvChange, Knows};
use crate::wire::transport::Transport;
use crate::wire::writer::ResponseWriter;

/// What a client is told to use by default: SQL Server's own default language.
const LANGUAGE: &str = "us_english";
/// The feature extension that says that the client knows UTF-8 collations.
const FEATURE_UTF8: u8 = 0x0A;
/// The client knows `json` columns.
const FEATURE_JSON: u8 = 0x0D;
/// The client knows `vector` columns.
const FEATURE_VECTOR: u8 = 0x0E;

pub(crate) struct Connection {
    transport: Transport,
    writer: ResponseWriter,
    shared: Arc<Shared>,
    id: u64,
    /// What the prelogin's answer said; a login with a token repeats it.
    fed_auth_required: bool,
}

/// How the login went.
enum Admitted {
    Session(Box<ClientSession>),
    Refused,
}

impl Connection {
    pub(crate) fn new(stream: TcpStream, shared: Arc<Shared>, id: u64) -> io::Result<Connection> {
        Ok(Connection {
            transport: Transport::new(stream)?,
            writer: ResponseWriter::new(),
            shared,
            id,
            fed_auth_required: false,
        })
    }

    /// Serves the client until it leaves. An error is the connection's, not the server's.
    pub(crate) fn serve(mut self) -> io::Result<()> {
        let login_only_tls = match self.negotiate()? {
            Some(login_only) => login_only,
            None => return Ok(()),
        };
        let Some(message) = self.transport.read_message()? else {
            return Ok(());
        };
        if message.kind != kind::LOGIN7 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a login message was expected",
            ));
        }
        if login_only_tls {
            self.transport.leave_tls();
        }
        let mut login = Login7::parse(&message.body).map_err(invalid)?;
        if let Some(token) = &login.token {
            login.user = logins::user_of_token(token).unwrap_or_default();
        }
        if self.is_cut(LoginStep::Login, &login.user)? {
            return Ok(());
        }
        let mut session = match self.log_in(login)? {
            Admitted::Session(session) => session,
            Admitted::Refused => {
                self.transport.close();
                return Ok(());
            }
        };
        session.watch(self.transport.arrivals()?).map_err(io::Error::other)?;
        while let Some(message) = self.transport.read_message()? {
            let out = Out {
                transport: &mut self.transport,
                writer: &mut self.writer,
                shared: &self.shared,
                user: &session.login.user.clone(),
                knows: Knows {
                    json: session.login.knows(FEATURE_JSON),
                    vector: session.login.knows(FEATURE_VECTOR),
                },
                null_bitmap: session.login.tds_version >= TDS_7_3_B || session.login.tds_version == TDS_8_0,
            };
            let mut response = Response::new(out);
            match session.answer(&message, &mut response) {
                Ok(()) => {
                    if !response.finish()? {
                        break;
                    }
                }
                Err(SinkClosed::Cancelled) => response.finish_cancelled()?,
                Err(SinkClosed::Broken(error)) => return Err(error),
            }
        }
        self.transport.close();
        Ok(())
    }

    /// Prelogin and TLS. Returns whether TLS ends with the login, or `None` when there is nothing to go on with.
    fn negotiate(&mut self) -> io::Result<Option<bool>> {
        let strict = match &self.shared.tls {
            Some(tls) if self.transport.opens_with_tls()? => {
                let config = Arc::clone(&tls.strict);
                if self.is_cut(LoginStep::Hello, "")? {
                    return Ok(None);
                }
                self.transport.accept_strict_tls(config)?;
                true
            }
            _ => false,
        };
        let Some(message) = self.transport.read_message()? else {
            return Ok(None);
        };
        if message.kind != kind::PRELOGIN {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a prelogin message was expected",
            ));
        }
        if self.is_cut(LoginStep::Prelogin, "")? {
            return Ok(None);
        }
        let client = Prelogin::parse(&message.body).map_err(invalid)?;
        let offer = match (self.shared.encryption, client.encryption) {
            _ if strict => Offer::NotSupported,
            (Encryption::Off, _) => Offer::NotSupported,
            (Encryption::Required, Offer::Off | Offer::NotSupported) => Offer::Required,
            (Encryption::Required, Offer::On | Offer::Required) | (Encryption::On, Offer::On | Offer::Required) => {
                Offer::On
            }
            (Encryption::On, Offer::Off) => Offer::Off,
            (Encryption::On, Offer::NotSupported) => Offer::NotSupported,
        };
        self.fed_auth_required = self.shared.fed_auth_required && client.asks_fed_auth;
        let answer = prelogin::answer(self.shared.version, offer, client, self.fed_auth_required);
        let (mut framed, mut id) = (Vec::new(), 0);
        packet::frame(
            &mut framed,
            kind::RESPONSE,
            &answer,
            packet::DEFAULT_PACKET_SIZE,
            &mut id,
            true,
        );
        self.transport.write(&framed)?;
        let incompatible = match offer {
            Offer::NotSupported if !strict => matches!(client.encryption, Offer::On | Offer::Required),
            Offer::Required => client.encryption == Offer::NotSupported,
            _ => false,
        };
        if incompatible {
            self.transport.close();
            return Ok(None);
        }
        match &self.shared.tls {
            Some(tls) if offer != Offer::NotSupported => {
                let config = Arc::clone(&tls.wrapped);
                // A client that only asked takes no fault away.
                if !self.transport.is_anything_coming()? || self.is_cut(LoginStep::Hello, "")? {
                    return Ok(None);
                }
                let cut = self.shared.faults.take_for_step(LoginStep::KeyExchange, "");
                self.transport.accept_wrapped_tls(config, cut.is_some())?;
                if let Some(reset) = cut {
                    self.cut(reset)?;
                    return Ok(None);
                }
                Ok(Some(offer == Offer::Off))
            }
            _ => Ok(Some(false)),
        }
    }

    /// Ends the connection if a fault wants that at this step.
    fn is_cut(&mut self, step: LoginStep, login: &str) -> io::Result<bool> {
        let Some(reset) = self.shared.faults.take_for_step(step, login) else {
            return Ok(false);
        };
        if step == LoginStep::Hello {
            // What is left unread would make a reset of a FIN.
            self.transport.skip()?;
        }
        self.cut(reset)?;
        Ok(true)
    }

    fn cut(&mut self, reset: bool) -> io::Result<()> {
        match reset {
            true => self.transport.reset_on_close(),
            false => {
                self.transport.cut();
                Ok(())
            }
        }
    }

    fn log_in(&mut self, login: Login7) -> io::Result<Admitted> {
        if login.tds_version < TDS_7_3_B && login.tds_version != TDS_8_0 {
            return self.refuse(&[messages::old_client()]);
        }
        if login.integrated {
            return self.refuse(&[messages::untrusted_domain()]);
        }
        self.shared.logins.note(&login);
        if login.token.is_some() && login.fed_auth_echo != self.fed_auth_required {
            return self.refuse(&[messages::wrong_echo(&login.user)]);
        }
        match self.shared.faults.take_for_login(&login.user) {
            Some(FaultKind::LoginFail { number }) => {
                return self.refuse(&[messages::injected(number, None, 0, &login.user)]);
            }
            Some(FaultKind::Redirect { host, port }) => {
                self.acknowledge(&login, None, Some((&host, port)))?;
                return Ok(Admitted::Refused);
            }
            _ => {}
        }
        let packet_size = match login.packet_size as usize {
            0 => packet::DEFAULT_PACKET_SIZE,
            size => size.clamp(packet::MIN_PACKET_SIZE, packet::MAX_PACKET_SIZE),
        };
        match ClientSession::open(Arc::clone(&self.shared), login, self.id) {
            Ok(session) => {
                self.acknowledge(&session.login, Some((session.database(), packet_size)), None)?;
                Ok(Admitted::Session(Box::new(session)))
            }
            Err(error) => {
                let mut errors = vec![error.error];
                if errors[0].number == 4060 {
                    // SQL Server says both.
                    errors.push(messages::login_failed(&error.user));
                }
                self.refuse(&errors)
            }
        }
    }

    /// The answer to a login that went well, or that is to go to another server.
    fn acknowledge(
        &mut self,
        login: &Login7,
        admitted: Option<(&str, usize)>,
        redirect: Option<(&str, u16)>,
    ) -> io::Result<()> {
        let out = &mut self.writer.tokens;
        let server = &self.shared.server_name;
        if let Some((database, _)) = admitted {
            tokens::env_change(
                out,
                EnvChange::Database {
                    old: "master",
                    new: database,
                },
            );
            tokens::info(out, &messages::database_context(database), server);
            tokens::env_change(out, EnvChange::Collation);
            tokens::env_change(out, EnvChange::Language { old: "", new: LANGUAGE });
            tokens::info(out, &messages::language_setting(LANGUAGE), server);
        }
        tokens::login_ack(out, login.tds_version, self.shared.version);
        if let Some((_, packet_size)) = admitted {
            tokens::env_change(
                out,
                EnvChange::PacketSize {
                    old: packet::DEFAULT_PACKET_SIZE,
                    new: packet_size,
                },
            );
        }
        if let Some(features) = &login.features {
            // Each of them exists in its version 1 here.
            let mut known: Vec<(u8, &[u8])> = [FEATURE_UTF8, FEATURE_JSON, FEATURE_VECTOR]
                .into_iter()
                .filter(|feature| features.contains(feature))
                .map(|feature| (feature, &[1_u8][..]))
                .collect();
            if features.contains(&FEATURE_FEDERATED) {
                known.push((FEATURE_FEDERATED, &[]));
            }
            tokens::feature_ext_ack(out, &known);
        }
        if let Some((host, port)) = redirect {
            tokens::env_change(out, EnvChange::Routing { host, port });
        }
        tokens::done(
            out,
            Done {
                kind: DoneKind::Statement,
                rows: None,
                select: false,
                error: false,
            },
            false,
        );
        self.writer.finish(&mut self.transport)?;
        if let Some((_, packet_size)) = admitted {
            self.writer.set_packet_size(packet_size);
        }
        Ok(())
    }

    fn refuse(&mut self, errors: &[SqlError]) -> io::Result<Admitted> {
        for error in errors {
            tokens::error(&mut self.writer.tokens, error, &self.shared.server_name);
        }
        let done = Done {
            kind: DoneKind::Statement,
            rows: None,
            select: false,
            error: true,
        };
        tokens::done(&mut self.writer.tokens, done, false);
        self.writer.finish(&mut self.transport)?;
        Ok(Admitted::Refused)
    }
}

fn invalid(error: Malformed) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use mssql_sim_engine::EngineOptions;

    use super::*;
    use crate::logins::tests::token;
    use crate::wire::login7::tests::{fed_auth, message};
    use crate::{CertificateOptions, ServerOptions, SimServer};

    fn server(fed_auth_required: bool) -> SimServer {
        SimServer::start(ServerOptions {
            listen: "127.0.0.1:0".into(),
            engine: EngineOptions::default(),
            encryption: Encryption::Off,
            certificate: CertificateOptions::default(),
            instance: None,
            requests: None,
            fed_auth_required,
        })
        .unwrap()
    }

    fn send(stream: &mut TcpStream, kind: u8, payload: &[u8]) {
        let (mut framed, mut id) = (Vec::new(), 0);
        packet::frame(&mut framed, kind, payload, packet::DEFAULT_PACKET_SIZE, &mut id, true);
        stream.write_all(&framed).unwrap();
    }

    fn receive(stream: &mut TcpStream) -> Vec<u8> {
        let mut header = [0; packet::HEADER_LEN];
        stream.read_exact(&mut header).unwrap();
        let length = packet::Header::parse(&header).unwrap().length;
        let mut payload = vec![0; length - packet::HEADER_LEN];
        stream.read_exact(&mut payload).unwrap();
        payload
    }

    /// Logs in with a token, after a prelogin that asks about federated authentication or does not. The number of the error.
    fn refusal(server: &SimServer, asks: bool, echo: bool) -> Option<i32> {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        let client = Prelogin {
            encryption: Offer::NotSupported,
            asks_fed_auth: asks,
        };
        // Both sides' messages have one form.
        let request = prelogin::answer((0, 1, 0), Offer::NotSupported, client, true);
        send(&mut stream, kind::PRELOGIN, &request);
        let answer = Prelogin::parse(&receive(&mut stream)).unwrap();
        assert_eq!(answer.asks_fed_auth, asks, "said only when asked");
        let data = fed_auth(&token(r#"{"upn":"sa","exp":4000000000}"#), echo);
        let login = message("", "", "master", &[(FEATURE_FEDERATED, &data)]);
        send(&mut stream, kind::LOGIN7, &login);
        match receive(&mut stream).as_slice() {
            // ERROR: its length, its number.
            [0xAA, _, _, number @ ..] => Some(i32::from_le_bytes(number[..4].try_into().unwrap())),
            // ENVCHANGE: the login's database.
            [0xE3, ..] => None,
            other => panic!("{other:02X?}"),
        }
    }

    #[test]
    fn a_token_comes_in_when_it_repeats_what_the_prelogin_said_and_else_not() {
        let not_required = server(false);
        assert_eq!(refusal(&not_required, true, false), None);
        assert_eq!(refusal(&not_required, true, true), Some(18456));
        assert_eq!(refusal(&not_required, false, false), None);
        let required = server(true);
        assert_eq!(refusal(&required, true, true), None);
        assert_eq!(refusal(&required, true, false), Some(18456));
        assert_eq!(refusal(&required, false, false), None);
        assert_eq!(refusal(&required, false, true), Some(18456));
    }
}

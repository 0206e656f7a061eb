//! ADO.NET connection strings: `Server=host;Database=sales;User ID=reader;Password='a;b'`.
//!
//! The grammar and the keywords are those of Microsoft.Data.SqlClient (`SqlConnection.ConnectionString`). The parser is
//! our own because a wrong string has to be told without a word of it: it may hold a password, and an unknown keyword may
//! be half of one.

use std::fmt;

use super::super::nearest;

/// What a keyword sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keyword {
    Server,
    Database,
    User,
    Password,
    Authentication,
    IntegratedSecurity,
    Encrypt,
    TrustServerCertificate,
    ServerCertificate,
    HostNameInCertificate,
    ConnectTimeout,
    CommandTimeout,
    ApplicationName,
    ApplicationIntent,
    /// Has no effect here. Silent when the value says what sluice does in any case.
    NoEffect {
        /// Values that say what happens anyway, in lower case; empty for none.
        same: &'static [&'static str],
        /// Why it has none.
        why: &'static str,
    },
    /// Cannot be honoured, unless its value turns it off.
    Refused {
        /// Values that turn it off, in lower case.
        off: &'static [&'static str],
        /// Why, and what to do.
        why: &'static str,
    },
}

const OWN_POOLS: &str = "sluice has pools of its own (limits.connections)";
const NO: &[&str] = &["false", "no"];
const YES: &[&str] = &["true", "yes"];

/// Every keyword and synonym, as people write them; they are compared without case and spaces.
const KEYWORDS: &[(&[&str], Keyword)] = &[
    (
        &["Server", "Data Source", "Address", "Addr", "Network Address"],
        Keyword::Server,
    ),
    (&["Database", "Initial Catalog"], Keyword::Database),
    (&["User ID", "UID", "User"], Keyword::User),
    (&["Password", "PWD"], Keyword::Password),
    (&["Authentication"], Keyword::Authentication),
    (
        &["Integrated Security", "Trusted_Connection"],
        Keyword::IntegratedSecurity,
    ),
    (&["Encrypt"], Keyword::Encrypt),
    (
        &["Trust Server Certificate", "TrustServerCertificate"],
        Keyword::TrustServerCertificate,
    ),
    (&["Server Certificate", "ServerCertificate"], Keyword::ServerCertificate),
    (
        &["Host Name In Certificate", "HostNameInCertificate"],
        Keyword::HostNameInCertificate,
    ),
    (
        &["Connect Timeout", "Connection Timeout", "Timeout"],
        Keyword::ConnectTimeout,
    ),
    (&["Command Timeout"], Keyword::CommandTimeout),
    (&["Application Name", "App"], Keyword::ApplicationName),
    (&["Application Intent", "ApplicationIntent"], Keyword::ApplicationIntent),
    (
        &["Persist Security Info", "PersistSecurityInfo"],
        Keyword::NoEffect {
            same: NO,
            why: "sluice never hands the string back",
        },
    ),
    (
        &["MultipleActiveResultSets", "Multiple Active Result Sets"],
        Keyword::NoEffect {
            same: NO,
            why: "sluice runs one statement at a time on a connection",
        },
    ),
    (
        &[
            "Multi Subnet Failover",
            "MultiSubnetFailover",
            "Transparent Network IP Resolution",
        ],
        Keyword::NoEffect {
            same: YES,
            why: "all addresses of the server's name are tried at once in any case",
        },
    ),
    (
        &[
            "Pooling",
            "Min Pool Size",
            "Max Pool Size",
            "Load Balance Timeout",
            "Connection Lifetime",
            "Pool Blocking Period",
            "PoolBlockingPeriod",
            "Connection Reset",
        ],
        Keyword::NoEffect {
            same: YES,
            why: OWN_POOLS,
        },
    ),
    (
        &["Packet Size"],
        Keyword::NoEffect {
            same: &[],
            why: "sluice asks for the largest packets that the driver takes",
        },
    ),
    (
        &["Connect Retry Count", "Connect Retry Interval"],
        Keyword::NoEffect {
            same: &[],
            why: "sluice repeats a whole step instead, see docs/guides/connecting.md",
        },
    ),
    (
        &["Workstation ID", "WSID"],
        Keyword::NoEffect {
            same: &[],
            why: "the server is told the machine's own name",
        },
    ),
    (
        &[
            "Enlist",
            "Replication",
            "Asynchronous Processing",
            "Transaction Binding",
            "Type System Version",
        ],
        Keyword::NoEffect {
            same: &[],
            why: "it is about features of .NET that sluice has no use for",
        },
    ),
    (
        &["Current Language", "Language"],
        Keyword::NoEffect {
            same: &["us_english"],
            why: "sluice asks for us_english, so that the server's messages are the documented ones",
        },
    ),
    (
        &["IP Address Preference", "IPAddressPreference"],
        Keyword::NoEffect {
            same: &["useplatformdefault"],
            why: "all addresses of the server's name are tried at once",
        },
    ),
    (
        &["Network Library", "Net", "Network"],
        Keyword::Refused {
            off: &["dbmssocn", "tcp"],
            why: "sluice connects over TCP (dbmssocn)",
        },
    ),
    (
        &["Failover Partner"],
        Keyword::Refused {
            off: &[],
            why: "sluice knows no database mirroring; name an availability group's listener as the server",
        },
    ),
    (
        &["AttachDBFilename", "Extended Properties", "Initial File Name"],
        Keyword::Refused {
            off: &[],
            why: "sluice attaches no files",
        },
    ),
    (
        &["User Instance", "Context Connection"],
        Keyword::Refused {
            off: NO,
            why: "it needs SQL Server Express or .NET inside of the server",
        },
    ),
    (
        &["Column Encryption Setting"],
        Keyword::Refused {
            off: &["disabled"],
            why: "sluice has no keys of Always Encrypted: encrypted columns arrive as they are stored",
        },
    ),
    (
        &["Server SPN", "ServerSPN", "Failover Partner SPN"],
        Keyword::Refused {
            off: &[],
            why: "it is for Windows logins, which this build has not",
        },
    ),
];

/// What a pair of the string says.
#[derive(PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) keyword: Keyword,
    /// The keyword as it is documented.
    pub(super) name: &'static str,
    pub(super) value: String,
}

impl fmt::Debug for Pair {
    /// Without the value: it may be a password.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Pair").field(&self.name).finish()
    }
}

/// Reads the string. An error tells the place, never the text.
pub(super) fn parse(text: &str) -> Result<Vec<Pair>, String> {
    let mut reader = Reader {
        characters: text.chars().collect(),
        at: 0,
    };
    let mut pairs: Vec<Pair> = Vec::new();
    while let Some((key, value)) = reader.pair()? {
        let (keyword, name) = find(&key)?;
        if value.is_empty() {
            // ADO.NET: an empty value is the default.
            continue;
        }
        let settles = !matches!(keyword, Keyword::NoEffect { .. });
        if settles && let Some(other) = pairs.iter().find(|pair| pair.keyword == keyword) {
            return Err(match other.name == name {
                true => format!("has {name} twice; remove one"),
                false => format!("has {} and {name}, which are the same; remove one", other.name),
            });
        }
        pairs.push(Pair { keyword, name, value });
    }
    Ok(pairs)
}

fn find(key: &str) -> Result<(Keyword, &'static str), String> {
    let plain = |name: &str| -> String {
        name.chars()
            .filter(|character| !character.is_whitespace())
            .collect::<String>()
            .to_lowercase()
    };
    let wanted = plain(key);
    let all = || {
        KEYWORDS
            .iter()
            .flat_map(|(names, keyword)| names.iter().map(move |name| (*keyword, *name)))
    };
    if let Some(found) = all().find(|(_, name)| plain(name) == wanted) {
        return Ok(found);
    }
    // The unknown word itself may be a piece of a password with a semicolon in it: it is not repeated.
    let known: Vec<String> = all().map(|(_, name)| plain(name)).collect();
    let near = nearest(&wanted, known.iter().map(String::as_str))
        .and_then(|near| all().find(|(_, name)| plain(name) == near))
        .map(|(_, name)| format!("; the nearest is {name:?}"))
        .unwrap_or_default();
    Err(format!(
        "has an unknown keyword of {} characters{near}. Is a value with a semicolon not in quotes?",
        key.chars().count()
    ))
}

struct Reader {
    characters: Vec<char>,
    at: usize,
}

impl Reader {
    /// What is wrong with a keyword that has no value: more often than not it is the rest of a value.
    fn without_equals(&self, start: usize) -> String {
        let text: String = self.characters.iter().collect();
        let hint = if text.contains("://") || text.starts_with("jdbc:") {
            "an ADO.NET connection string is wanted (Server=host,1433;Database=…;User ID=…;Password=…), and not a URL"
        } else {
            "a value with a semicolon or a quote in it is put in double quotes, and its own double quotes are doubled"
        };
        format!("has no \"=\" after the keyword at character {}; {hint}", start + 1)
    }

    /// The next keyword and its value.
    fn pair(&mut self) -> Result<Option<(String, String)>, String> {
        self.skip(|character| character == ';' || character.is_whitespace());
        if self.at >= self.characters.len() {
            return Ok(None);
        }
        let start = self.at;
        let mut key = String::new();
        loop {
            match self.next() {
                Some('=') if self.peek() == Some('=') => {
                    self.at += 1;
                    key.push('=');
                }
                Some('=') => break,
                Some(character) if character != ';' => key.push(character),
                _ => return Err(self.without_equals(start)),
            }
        }
        self.skip(|character| character.is_whitespace() && character != ';');
        let value = match self.peek() {
            Some(quote @ ('\'' | '"')) => self.quoted(quote)?,
            _ => {
                let mut value = String::new();
                while let Some(character) = self.peek().filter(|character| *character != ';') {
                    value.push(character);
                    self.at += 1;
                }
                value.trim_end().to_owned()
            }
        };
        Ok(Some((key.trim().to_owned(), value)))
    }

    /// A value in quotes; a doubled quote is one of them.
    fn quoted(&mut self, quote: char) -> Result<String, String> {
        let start = self.at;
        self.at += 1;
        let mut value = String::new();
        loop {
            match self.next() {
                Some(character) if character == quote => {
                    if self.peek() != Some(quote) {
                        break;
                    }
                    self.at += 1;
                    value.push(quote);
                }
                Some(character) => value.push(character),
                None => return Err(format!("has a quote at character {} that is not closed", start + 1)),
            }
        }
        self.skip(|character| character.is_whitespace() && character != ';');
        match self.peek() {
            None | Some(';') => Ok(value),
            Some(_) => Err(format!(
                "has text behind the closing quote at character {}; a quote inside of quotes is doubled",
                self.at
            )),
        }
    }

    fn skip(&mut self, which: impl Fn(char) -> bool) {
        while self.peek().is_some_and(&which) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<char> {
        self.characters.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek();
        self.at += 1;
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<(&'static str, String)> {
        parse(text)
            .unwrap()
            .into_iter()
            .map(|pair| (pair.name, pair.value))
            .collect()
    }

    #[test]
    fn values_are_quoted_as_in_ado_net() {
        let text = "Server = tcp:h,1433 ; PWD='a;b''c\"=' ;uid=\"x 'y'\"\"z\";; Initial Catalog=  my db  ;App={a b}; \
                    Connect Timeout=;";
        assert_eq!(
            values(text),
            [
                ("Server", "tcp:h,1433".to_owned()),
                ("PWD", "a;b'c\"=".to_owned()),
                ("UID", "x 'y'\"z".to_owned()),
                ("Initial Catalog", "my db".to_owned()),
                // Braces quote in ODBC, and are characters here.
                ("App", "{a b}".to_owned()),
            ]
        );
        assert_eq!(values("Password=it's=ok"), [("Password", "it's=ok".to_owned())]);
        assert_eq!(values("data   SOURCE=h"), [("Data Source", "h".to_owned())]);
        assert_eq!(values(""), []);
    }

    #[test]
    fn a_pair_never_shows_its_value() {
        let shown = format!("{:?}", parse("PWD=hunter2;Server=h").unwrap());
        assert_eq!(shown, "[Pair(\"PWD\"), Pair(\"Server\")]");
    }

    #[test]
    fn what_is_wrong_is_told_without_a_word_of_it() {
        for (text, words) in [
            ("Server=h;Pasword=hunter2", "the nearest is \"Password\""),
            ("Password=a;hunter2=x", "unknown keyword of 7 characters"),
            ("Password=a;hunter2", "no \"=\" after the keyword at character 12"),
            ("Password='hunter2", "not closed"),
            ("Password='hunter'2", "behind the closing quote"),
            (
                "Server=a;Data Source=hunter2",
                "has Server and Data Source, which are the same",
            ),
            ("Server=a;server=hunter2", "has Server twice"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
            assert!(!error.contains("hunter"), "{error}");
        }
    }
}

//! Which columns look personal, by their names and declared types, and what to do with each. No row is looked at, so the
//! guesses err on the side of masking: what is masked for nothing is seen at once and costs a line in the configuration;
//! what is not masked stays in the lake. A name beside a word for a thing (`product_name`) is the exception: it passes, with a
//! comment that says that it was in doubt.

use arrow::datatypes::DataType;

use super::words::{self, Terms, words};

/// What is proposed for a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guess {
    /// Nothing about it looks personal.
    Pass,
    /// It may pass, and a person should look: why.
    Doubt(&'static str),
    /// It looks personal.
    Mask {
        /// How it is masked.
        method: Method,
        /// What it looks like.
        because: &'static str,
    },
}

/// A method of `mask` with its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Email,
    KeepFirst(u8),
    KeepLast(u8),
    Hash,
    ShortHash,
    Year,
    Null,
}

impl Method {
    /// As it stands in the configuration.
    pub(super) fn toml(self) -> String {
        match self {
            Method::Email => "{ method = \"email\", key = \"pii\" }".to_owned(),
            Method::KeepFirst(n) => format!("{{ method = \"keep\", first = {n} }}"),
            Method::KeepLast(n) => format!("{{ method = \"keep\", last = {n} }}"),
            Method::Hash => "{ method = \"hash\", key = \"pii\" }".to_owned(),
            Method::ShortHash => "{ method = \"hash\", key = \"pii\", length = 16 }".to_owned(),
            Method::Year => "{ method = \"date\", truncate = \"year\" }".to_owned(),
            Method::Null => "\"null\"".to_owned(),
        }
    }

    /// Whether the host's key is used.
    pub(super) fn is_keyed(self) -> bool {
        matches!(self, Method::Email | Method::Hash | Method::ShortHash)
    }
}

/// A column as the guesser sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column<'a> {
    /// The name of its table.
    pub(super) table: &'a str,
    pub(super) name: &'a str,
    /// As in T-SQL, such as `nvarchar(100)`.
    pub(super) source_type: &'a str,
    pub(super) data_type: &'a DataType,
    /// Whether it belongs to the table's key, whose values have to stay apart.
    pub(super) key: bool,
}

/// What a type can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    /// Characters, at most so many.
    Text(u32),
    /// XML and JSON.
    Document,
    Number,
    /// A date or a timestamp.
    Moment,
    TimeOfDay,
    Flag,
    Guid,
    Binary,
    Other,
}

/// From so many characters on, people write about people into a column that is meant for it.
const REMARK: u32 = 20;

const NAME_OF_A_THING: &str = "a name, of a thing by the words beside it";
const REFERENCE: &str = "the number of a person, which other tables may resolve";
const OTHER_TYPE: &str = "named like something personal, of a type or length that does not fit";
const ABOUT_IT: &str = "about something personal, by its name";

/// Proposes.
pub(super) fn guess(column: Column<'_>) -> Guess {
    let words = words(column.name);
    let holds = Holds::of(column.source_type, column.data_type);
    if holds == Holds::Binary && is_version(column.source_type) {
        return Guess::Pass;
    }
    for (kind, terms) in KINDS {
        if kind.is_in(terms, &words) {
            return kind.proposal(&column, &words, holds);
        }
    }
    if words::HINT.are_in(&words) {
        return Guess::Doubt("says little of a person alone, and much together with other columns");
    }
    if is_reference(&words) {
        return Guess::Doubt(REFERENCE);
    }
    match holds {
        Holds::Document => Guess::Doubt("a document can hold anything"),
        Holds::Text(u32::MAX) => Guess::Doubt("a text without a limit can hold anything"),
        Holds::Text(_) | Holds::Binary if words::MAYBE.are_in(&words) => Guess::Doubt("may be about a person"),
        _ => Guess::Pass,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Card,
    Secret,
    Bank,
    NationalId,
    Email,
    Phone,
    Birth,
    Device,
    Special,
    Picture,
    Pay,
    FreeText,
    PostCode,
    Name,
    Address,
    Login,
}

/// The first that a name has is what the column is taken for.
const KINDS: [(Kind, &Terms); 16] = [
    (Kind::Secret, &words::SECRET),
    (Kind::Card, &words::CARD),
    (Kind::Bank, &words::BANK),
    (Kind::NationalId, &words::NATIONAL_ID),
    (Kind::Email, &words::EMAIL),
    (Kind::Phone, &words::PHONE),
    (Kind::Birth, &words::BIRTH),
    (Kind::Device, &words::DEVICE),
    (Kind::Special, &words::SPECIAL),
    (Kind::Picture, &words::PICTURE),
    (Kind::Pay, &words::PAY),
    (Kind::FreeText, &words::FREE_TEXT),
    (Kind::Login, &words::LOGIN),
    (Kind::PostCode, &words::POST_CODE),
    (Kind::Name, &words::NAME),
    (Kind::Address, &words::ADDRESS),
];

impl Kind {
    fn is_in(self, terms: &Terms, words: &[String]) -> bool {
        // The name on a card is no number of a card.
        let of_the_holder = |word: &String| {
            ["holder", "inhaber"].contains(&word.as_str()) || word.ends_with("name") || word.ends_with("inhaber")
        };
        if self == Kind::Card && words.iter().any(of_the_holder) {
            return false;
        }
        terms.are_in(words)
            || self == Kind::Name
                && words
                    .iter()
                    .any(|word| word.ends_with("name") || word.ends_with("names"))
    }

    fn because(self) -> &'static str {
        match self {
            Kind::Card => "looks like the number of a payment card",
            Kind::Secret => "looks like a secret; nobody needs it in a lake",
            Kind::Bank => "looks like a bank account",
            Kind::NationalId => "looks like an official number of a person",
            Kind::Email => "looks like an e-mail address",
            Kind::Phone => "looks like a telephone number",
            Kind::Birth => "looks like a date of birth",
            Kind::Device => "looks like the address of a device or a session",
            Kind::Special => "looks like a special category (health, belief, origin, record)",
            Kind::Picture => "looks like a picture of a person, or a signature",
            Kind::Pay => "looks like what a person earns or is worth",
            Kind::FreeText => "looks like free text, in which people write about people",
            Kind::PostCode => "looks like a post code",
            Kind::Name => "looks like the name of a person",
            Kind::Address => "looks like an address",
            Kind::Login => "looks like the account of a person",
        }
    }

    fn proposal(self, column: &Column<'_>, words: &[String], holds: Holds) -> Guess {
        if self == Kind::Name && is_of_a_thing(column.table, words) {
            return Guess::Doubt(NAME_OF_A_THING);
        }
        let categories = !matches!(self, Kind::Secret | Kind::Special | Kind::Birth | Kind::FreeText);
        let last = words.last().is_some_and(|last| words::ABOUT.contains(&last.as_str()));
        if categories && last && matches!(holds, Holds::Text(_) | Holds::Number) {
            return Guess::Doubt(ABOUT_IT);
        }
        match self.method(holds) {
            // What the rows of a key are told apart by has to stay different.
            Some(_) if column.key => self.mask(Method::Hash),
            Some(method) => self.mask(method),
            None if holds == Holds::Flag || holds == Holds::Moment || holds == Holds::TimeOfDay => Guess::Pass,
            None if is_reference(words) => Guess::Doubt(REFERENCE),
            None => Guess::Doubt(OTHER_TYPE),
        }
    }

    fn mask(self, method: Method) -> Guess {
        Guess::Mask {
            method,
            because: self.because(),
        }
    }

    /// `None`: the type does not fit.
    fn method(self, holds: Holds) -> Option<Method> {
        use Holds::{Binary, Document, Flag, Guid, Moment, Number, Text, TimeOfDay};
        Some(match (self, holds) {
            (Kind::Secret, Text(_) | Document | Number | Guid | Binary) => Method::Null,
            (Kind::Card, Text(_)) => Method::KeepLast(4),
            (Kind::Card | Kind::Bank, Number) => Method::Hash,
            (Kind::Bank, Text(_)) => Method::Hash,
            (Kind::NationalId, Text(_) | Number | Binary) => Method::Hash,
            (Kind::Email, Text(_)) => Method::Email,
            (Kind::Phone, Text(_)) => Method::KeepLast(2),
            (Kind::Phone, Number) => Method::Hash,
            (Kind::Birth, Moment) => Method::Year,
            (Kind::Birth, Text(_) | Number | TimeOfDay) => Method::Null,
            (Kind::Device, Text(_) | Number | Guid | Binary) => Method::ShortHash,
            // A flag of this kind says all that there is to say; a day says when.
            (Kind::Special, Text(_) | Document | Number | Flag | Guid | Binary | Moment) => Method::Null,
            (Kind::Picture, Text(_) | Binary | Document) => Method::Null,
            (Kind::Pay, Text(_) | Number) => Method::Null,
            (Kind::FreeText, Text(length)) if length >= REMARK => Method::Null,
            (Kind::FreeText, Document) => Method::Null,
            (Kind::PostCode, Text(_)) => Method::KeepFirst(2),
            (Kind::PostCode, Number) => Method::Hash,
            (Kind::Name, Text(_)) => Method::ShortHash,
            (Kind::Address, Text(_) | Document) => Method::Null,
            // `user_id int` is a reference; `user_id varchar(30)` is what the person logs in with.
            (Kind::Login, Text(_)) => Method::ShortHash,
            _ => return None,
        })
    }
}

impl Holds {
    fn of(source_type: &str, data_type: &DataType) -> Holds {
        let (name, rest) = source_type.split_once('(').unwrap_or((source_type, ""));
        let arguments = rest.trim_end_matches(')');
        match name {
            "char" | "varchar" | "nchar" | "nvarchar" => Holds::Text(arguments.parse().unwrap_or(u32::MAX)),
            "text" | "ntext" => Holds::Text(u32::MAX),
            "sysname" => Holds::Text(128),
            "xml" | "json" => Holds::Document,
            "uniqueidentifier" => Holds::Guid,
            "time" => Holds::TimeOfDay,
            "bit" => Holds::Flag,
            _ => match data_type {
                DataType::Utf8 => Holds::Other,
                DataType::Binary => Holds::Binary,
                DataType::Date32 | DataType::Timestamp(..) => Holds::Moment,
                DataType::Boolean => Holds::Flag,
                _ => Holds::Number,
            },
        }
    }
}

/// Numbers that the server gives to versions of rows.
fn is_version(source_type: &str) -> bool {
    let name = source_type.split('(').next().unwrap_or_default();
    matches!(name, "timestamp" | "rowversion")
}

/// Whether a name is a thing's: by a word beside it, or by its table where it is a name and nothing else.
fn is_of_a_thing(table: &str, words: &[String]) -> bool {
    let parts = |words: &[String]| -> Vec<String> {
        let before_name = |word: &String| word.strip_suffix("name").unwrap_or(word).to_owned();
        words.iter().map(before_name).filter(|word| !word.is_empty()).collect()
    };
    let has = |words: &[String], list: &[&str]| words.iter().any(|word| words::is_one_of(word, list));
    let beside = parts(words);
    if has(&beside, words::PERSONS) || words::NAME.are_in(words) {
        return false;
    }
    let only_a_name = beside.iter().all(|word| word.chars().all(char::is_numeric));
    match only_a_name {
        false => has(&beside, words::THINGS),
        true => {
            let table = words::words(table);
            has(&table, words::THINGS) && !has(&table, words::PERSONS)
        }
    }
}

/// `customer_id`, `UserNo`: a person by a number.
fn is_reference(words: &[String]) -> bool {
    words
        .last()
        .is_some_and(|last| words::NUMBERED.contains(&last.as_str()))
        && words.iter().any(|word| words::is_one_of(word, words::PERSONS))
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::TimeUnit;

    use super::*;

    fn arrow(source_type: &str) -> DataType {
        match source_type.split('(').next().unwrap() {
            "int" => DataType::Int32,
            "bigint" => DataType::Int64,
            "bit" => DataType::Boolean,
            "date" => DataType::Date32,
            "datetime2" => DataType::Timestamp(TimeUnit::Microsecond, None),
            "decimal" | "money" => DataType::Decimal128(19, 4),
            "varbinary" | "rowversion" => DataType::Binary,
            _ => DataType::Utf8,
        }
    }

    fn of(table: &str, name: &str, source_type: &str, key: bool) -> Guess {
        guess(Column {
            table,
            name,
            source_type,
            data_type: &arrow(source_type),
            key,
        })
    }

    fn method(name: &str, source_type: &str) -> Option<Method> {
        match of("t", name, source_type, false) {
            Guess::Mask { method, .. } => Some(method),
            _ => None,
        }
    }

    #[test]
    fn what_looks_personal_gets_a_mask_that_fits_its_type() {
        for (name, source_type, expected) in [
            ("email", "nvarchar(120)", Method::Email),
            ("E-Mail", "varchar(80)", Method::Email),
            ("kundenEmail", "varchar(80)", Method::Email),
            ("contact_mail", "varchar(80)", Method::Email),
            ("phone", "varchar(30)", Method::KeepLast(2)),
            ("Telefonnummer", "varchar(30)", Method::KeepLast(2)),
            ("mobile_no", "bigint", Method::Hash),
            ("handy_nr", "nvarchar(30)", Method::KeepLast(2)),
            ("name", "nvarchar(100)", Method::ShortHash),
            ("first_name", "nvarchar(50)", Method::ShortHash),
            ("LASTNAME", "nvarchar(50)", Method::ShortHash),
            ("Nachname", "nvarchar(50)", Method::ShortHash),
            ("kundenname", "nvarchar(50)", Method::ShortHash),
            ("customer_name", "nvarchar(50)", Method::ShortHash),
            ("frobnitz_name", "nvarchar(50)", Method::ShortHash),
            ("Ansprechpartner", "nvarchar(50)", Method::ShortHash),
            ("address_line_1", "nvarchar(200)", Method::Null),
            ("Straße", "nvarchar(200)", Method::Null),
            ("Lieferanschrift", "nvarchar(200)", Method::Null),
            ("zip", "varchar(10)", Method::KeepFirst(2)),
            ("PLZ", "int", Method::Hash),
            ("postal_code", "varchar(10)", Method::KeepFirst(2)),
            ("birth_date", "date", Method::Year),
            ("Geburtsdatum", "datetime2(0)", Method::Year),
            ("dob", "varchar(10)", Method::Null),
            ("birth_year", "int", Method::Null),
            ("ssn", "char(11)", Method::Hash),
            ("national_id", "char(11)", Method::Hash),
            ("Steuer-ID", "varchar(20)", Method::Hash),
            ("passport_no", "varchar(20)", Method::Hash),
            ("Personalausweisnummer", "varchar(20)", Method::Hash),
            ("iban", "varchar(34)", Method::Hash),
            ("Kontonummer", "bigint", Method::Hash),
            ("card_number", "varchar(19)", Method::KeepLast(4)),
            ("Kreditkartennummer", "varchar(19)", Method::KeepLast(4)),
            ("cvv", "char(3)", Method::Null),
            ("card_holder_name", "nvarchar(60)", Method::ShortHash),
            ("display_name", "nvarchar(60)", Method::ShortHash),
            ("ShipName", "nvarchar(60)", Method::ShortHash),
            ("client_ip", "varchar(45)", Method::ShortHash),
            ("ip_address", "varbinary(16)", Method::ShortHash),
            ("username", "nvarchar(40)", Method::ShortHash),
            ("user_id", "varchar(30)", Method::ShortHash),
            ("Benutzername", "nvarchar(40)", Method::ShortHash),
            ("created_by", "nvarchar(40)", Method::ShortHash),
            ("password_hash", "varbinary(64)", Method::Null),
            ("Kennwort", "nvarchar(64)", Method::Null),
            ("api_key", "varchar(64)", Method::Null),
            ("salary", "money", Method::Null),
            ("Monatsgehalt", "decimal(12,2)", Method::Null),
            ("diagnosis_code", "varchar(10)", Method::Null),
            ("is_pregnant", "bit", Method::Null),
            ("Konfession", "varchar(2)", Method::Null),
            ("photo", "varbinary(max)", Method::Null),
            ("notes", "nvarchar(max)", Method::Null),
            ("Bemerkung", "nvarchar(200)", Method::Null),
            ("remarks", "varchar(60)", Method::Null),
            ("comment", "nvarchar(20)", Method::Null),
        ] {
            assert_eq!(method(name, source_type), Some(expected), "{name} {source_type}");
        }
    }

    #[test]
    fn what_does_not_look_personal_passes() {
        for (name, source_type) in [
            ("id", "int"),
            ("total", "money"),
            ("created_at", "datetime2(7)"),
            ("email_verified", "bit"),
            ("email_sent_at", "datetime2(7)"),
            ("shipping_method", "varchar(20)"),
            ("status", "varchar(20)"),
            ("sku", "varchar(20)"),
            ("quantity", "int"),
            ("row_version", "rowversion(8)"),
            ("row_guid", "uniqueidentifier"),
            ("order_no", "varchar(20)"),
            ("title", "nvarchar(100)"),
            ("marketing", "bit"),
            ("credit_limit", "decimal(12,2)"),
            ("description_length", "int"),
        ] {
            assert_eq!(
                of("orders", name, source_type, false),
                Guess::Pass,
                "{name} {source_type}"
            );
        }
    }

    #[test]
    fn the_name_of_a_thing_is_in_doubt_and_any_other_name_is_masked() {
        for (table, name) in [
            ("orders", "product_name"),
            ("orders", "ProductName"),
            ("orders", "filename"),
            ("orders", "Artikelname"),
            ("products", "name"),
            ("dim_categories", "name"),
        ] {
            let guess = of(table, name, "nvarchar(100)", false);
            assert_eq!(guess, Guess::Doubt(NAME_OF_A_THING), "{table}.{name}");
        }
        for (table, name) in [
            ("products", "first_name"),
            ("products", "customer_name"),
            ("product_owners", "name"),
            ("customers", "name"),
            ("t17", "name"),
            ("orders", "event_contact_name"),
        ] {
            let guess = of(table, name, "nvarchar(100)", false);
            assert!(matches!(guess, Guess::Mask { .. }), "{table}.{name}: {guess:?}");
        }
    }

    #[test]
    fn what_only_hints_at_a_person_is_in_doubt() {
        for (name, source_type) in [
            ("city", "nvarchar(60)"),
            ("Wohnort", "nvarchar(60)"),
            ("gender", "char(1)"),
            ("age", "int"),
            ("customer_id", "int"),
            ("user_id", "uniqueidentifier"),
            ("email", "int"),
            ("note", "varchar(10)"),
            ("payload", "nvarchar(max)"),
            ("settings", "xml"),
            ("company", "nvarchar(80)"),
            ("phone_type", "varchar(10)"),
            ("card_brand", "varchar(10)"),
            ("address_count", "int"),
        ] {
            let guess = of("orders", name, source_type, false);
            assert!(matches!(guess, Guess::Doubt(_)), "{name} {source_type}: {guess:?}");
        }
    }

    #[test]
    fn a_column_of_the_key_keeps_its_values_apart() {
        for name in ["email", "phone", "birth_date", "ssn"] {
            let guess = of("customers", name, "varchar(40)", true);
            assert!(
                matches!(
                    guess,
                    Guess::Mask {
                        method: Method::Hash,
                        ..
                    }
                ),
                "{name}: {guess:?}"
            );
        }
        assert_eq!(of("customers", "id", "int", true), Guess::Pass);
    }
}

//! The words of a column's name, and the lists of words that are looked for in them, in English and German.
//!
//! A *term* is found where one word, or several in a row put together, are the term: `first_name`, `FirstName` and
//! `firstname` all have `firstname`. A *stem* is found anywhere in a word: `kundenemail` has `email`. Only what is long or
//! rare enough to mean one thing is a stem.

/// Words that are put together for a term, at most.
const LONGEST_TERM: usize = 4;

/// The words of a name, in lower case and without accents: split at other characters than letters and digits, where a
/// capital begins a word, and between letters and digits.
pub(super) fn words(name: &str) -> Vec<String> {
    #[derive(PartialEq, Clone, Copy)]
    enum Class {
        Lower,
        Upper,
        Digit,
        Other,
    }
    let class = |c: char| match c {
        c if c.is_numeric() => Class::Digit,
        c if c.is_uppercase() => Class::Upper,
        c if c.is_alphabetic() => Class::Lower,
        _ => Class::Other,
    };
    let characters: Vec<char> = name.chars().collect();
    let mut words = Vec::new();
    let mut word = String::new();
    for (at, character) in characters.iter().enumerate() {
        let now = class(*character);
        let before = at.checked_sub(1).and_then(|at| characters.get(at)).map(|c| class(*c));
        let next = characters.get(at + 1).map(|c| class(*c));
        let begins = match (before, now) {
            (_, Class::Other) => true,
            (Some(Class::Lower), Class::Upper) => true,
            // The last capital of several belongs to what follows it: `HTTPProxy`.
            (Some(Class::Upper), Class::Upper) => next == Some(Class::Lower),
            (Some(Class::Digit), Class::Digit) | (None, _) => false,
            (Some(Class::Digit), _) | (_, Class::Digit) => true,
            _ => false,
        };
        if begins && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if now != Class::Other {
            fold(*character, &mut word);
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

fn fold(character: char, word: &mut String) {
    for lower in character.to_lowercase() {
        match lower {
            'ä' => word.push_str("ae"),
            'ö' => word.push_str("oe"),
            'ü' => word.push_str("ue"),
            'ß' => word.push_str("ss"),
            'à' | 'á' | 'â' | 'ã' | 'å' => word.push('a'),
            'è' | 'é' | 'ê' | 'ë' => word.push('e'),
            'ì' | 'í' | 'î' | 'ï' => word.push('i'),
            'ò' | 'ó' | 'ô' | 'õ' => word.push('o'),
            'ù' | 'ú' | 'û' => word.push('u'),
            'ç' => word.push('c'),
            'ñ' => word.push('n'),
            other => word.push(other),
        }
    }
}

/// Terms and stems of one kind.
pub(super) struct Terms {
    pub(super) terms: &'static [&'static str],
    pub(super) stems: &'static [&'static str],
}

impl Terms {
    /// Whether the words of a name have one of them.
    pub(super) fn are_in(&self, words: &[String]) -> bool {
        let stem = |word: &String| self.stems.iter().any(|stem| word.contains(stem));
        words.iter().any(stem) || self.has_term(words)
    }

    fn has_term(&self, words: &[String]) -> bool {
        (0..words.len()).any(|from| {
            let mut joined = String::new();
            words.iter().skip(from).take(LONGEST_TERM).any(|word| {
                joined.push_str(word);
                self.terms.contains(&joined.as_str())
            })
        })
    }
}

/// Whether a word, or its singular, is in a list.
pub(super) fn is_one_of(word: &str, list: &[&str]) -> bool {
    let singular = ["s", "es", "n", "en", "e"];
    let mut forms = vec![word.to_owned()];
    forms.extend(
        singular
            .iter()
            .filter_map(|end| word.strip_suffix(end))
            .map(str::to_owned),
    );
    // `categories`, `companies`.
    forms.extend(word.strip_suffix("ies").map(|stem| format!("{stem}y")));
    forms.iter().any(|form| list.contains(&form.as_str()))
}

pub(super) const SECRET: Terms = Terms {
    terms: &[
        "pin",
        "pwd",
        "pass",
        "secret",
        "token",
        "apikey",
        "privatekey",
        "salt",
        "otp",
        "cvv",
        "cvc",
        "puk",
        "securityanswer",
        "sicherheitsantwort",
        "credentials",
        "credential",
        "totp",
    ],
    stems: &[
        "passw",
        "kennwort",
        "passphrase",
        "losungswort",
        "accesstoken",
        "refreshtoken",
    ],
};
pub(super) const CARD: Terms = Terms {
    terms: &[
        "pan",
        "card",
        "cardno",
        "cardnumber",
        "cardnr",
        "ccnumber",
        "ccno",
        "cc",
        "debitcard",
        "karte",
        "kartennummer",
        "kartennr",
        "kartenno",
    ],
    stems: &["creditcard", "kreditkart", "cardnum"],
};
pub(super) const BANK: Terms = Terms {
    terms: &[
        "iban",
        "bic",
        "swift",
        "bankaccount",
        "accountnumber",
        "accountno",
        "accountnr",
        "acctno",
        "acctnum",
        "sortcode",
        "routingnumber",
        "konto",
        "kontonr",
        "kontonummer",
        "blz",
        "mandatsreferenz",
        "sepamandate",
        "sepamandat",
    ],
    stems: &["bankverbindung", "bankkonto", "kontonummer", "bankaccount", "ibannum"],
};
pub(super) const NATIONAL_ID: Terms = Terms {
    terms: &[
        "ssn",
        "nin",
        "nino",
        "nhs",
        "nhsnumber",
        "nationalid",
        "nationalidnumber",
        "nationalinsurance",
        "personalid",
        "personid",
        "personalnumber",
        "personnummer",
        "idnumber",
        "idno",
        "idcard",
        "identitycard",
        "socialsecurity",
        "socialsecuritynumber",
        "socialsecurityno",
        "taxid",
        "taxno",
        "taxnumber",
        "tin",
        "vatid",
        "passport",
        "passportno",
        "driverlicense",
        "driverslicense",
        "drivinglicence",
        "drivinglicense",
        "licenseplate",
        "licenceplate",
        "numberplate",
        "steuerid",
        "steuernr",
        "steuernummer",
        "ustid",
        "svnr",
        "svnummer",
        "rvnr",
        "kvnr",
        "ausweis",
        "ausweisnr",
        "passnr",
        "passnummer",
        "kennzeichen",
        "ahv",
        "ahvnr",
        "pesel",
        "curp",
        "cpf",
        "dni",
        "nif",
        "bsn",
        "aadhaar",
    ],
    stems: &[
        "passport",
        "reisepass",
        "personalausweis",
        "sozialversicherung",
        "steuerident",
        "fuehrerschein",
        "versichertennu",
        "krankenversichertennu",
        "rentenversicherungsnu",
    ],
};
pub(super) const EMAIL: Terms = Terms {
    terms: &[
        "email",
        "mail",
        "emailaddress",
        "mailaddress",
        "mailadresse",
        "emailaddr",
    ],
    stems: &["email", "mailadr"],
};
pub(super) const PHONE: Terms = Terms {
    terms: &[
        "phone",
        "tel",
        "telno",
        "telnr",
        "mobile",
        "mobileno",
        "mobilenumber",
        "cell",
        "cellphone",
        "fax",
        "faxno",
        "msisdn",
        "mobil",
        "mobilnr",
        "mobilnummer",
        "handy",
        "handynr",
        "rufnummer",
        "rufnr",
        "whatsapp",
    ],
    stems: &[
        "telephone",
        "telefon",
        "phonenum",
        "mobilephone",
        "mobiltel",
        "handynu",
        "telefax",
        "cellphone",
    ],
};
pub(super) const BIRTH: Terms = Terms {
    terms: &[
        "dob", "birth", "bday", "born", "birthday", "gebdat", "gebdatum", "geb", "gebtag", "gebjahr",
    ],
    stems: &["birth", "geburt"],
};
pub(super) const DEVICE: Terms = Terms {
    terms: &[
        "ip",
        "ipaddress",
        "ipaddr",
        "ipadresse",
        "ipv",
        "clientip",
        "remoteaddr",
        "remoteaddress",
        "mac",
        "macaddress",
        "imei",
        "imsi",
        "deviceid",
        "advertisingid",
        "idfa",
        "cookie",
        "cookieid",
        "sessionid",
        "session",
        "useragent",
        "fingerprintid",
    ],
    stems: &["ipaddr", "macaddr", "ipadress"],
};
pub(super) const LOGIN: Terms = Terms {
    terms: &[
        "user",
        "username",
        "userid",
        "uid",
        "login",
        "loginname",
        "loginid",
        "logon",
        "account",
        "accountname",
        "upn",
        "handle",
        "screenname",
        "skype",
        "twitter",
        "facebook",
        "linkedin",
        "instagram",
        "nutzer",
        "nutzername",
        "benutzer",
        "benutzername",
        "benutzerkennung",
        "kennung",
        "anmeldename",
        "createdby",
        "updatedby",
        "modifiedby",
        "changedby",
        "erstelltvon",
        "geaendertvon",
    ],
    stems: &["username", "benutzername", "loginname", "benutzerkenn"],
};
pub(super) const POST_CODE: Terms = Terms {
    terms: &["zip", "zipcode", "zippostal", "postcode", "postalcode", "plz"],
    stems: &["postleitzahl", "postcode", "postalcode", "zipcode"],
};
pub(super) const ADDRESS: Terms = Terms {
    terms: &[
        "address",
        "addr",
        "adr",
        "addressline",
        "street",
        "streetname",
        "houseno",
        "housenumber",
        "pobox",
        "adresse",
        "strasse",
        "str",
        "hausnr",
        "hausnummer",
        "postfach",
        "apartment",
    ],
    stems: &[
        "address",
        "adress",
        "street",
        "strasse",
        "anschrift",
        "hausnummer",
        "wohnsitz",
    ],
};
/// Besides every word that ends in `name`.
pub(super) const NAME: Terms = Terms {
    terms: &[
        "fname",
        "lname",
        "mname",
        "initials",
        "initialen",
        "contact",
        "contactperson",
        "ansprechpartner",
        "kontaktperson",
        "inhaber",
        "beneficiary",
        "recipient",
        "empfaenger",
        "cardholder",
        "accountholder",
        "nextofkin",
        "signatory",
        "vater",
        "mutter",
        "spouse",
        "ehepartner",
        "namen",
    ],
    stems: &[
        "surname",
        "lastname",
        "firstname",
        "forename",
        "givenname",
        "middlename",
        "maidenname",
        "fullname",
        "nickname",
        "vorname",
        "nachname",
        "familienname",
        "kontoinhaber",
        "ansprechpartner",
        "karteninhaber",
    ],
};
pub(super) const PAY: Terms = Terms {
    terms: &[
        "salary",
        "wage",
        "wages",
        "income",
        "compensation",
        "bonus",
        "hourlyrate",
        "lohn",
        "gehalt",
        "einkommen",
        "verdienst",
        "entgelt",
        "creditscore",
        "schufa",
        "bonitaet",
        "networth",
        "pension",
        "rente",
    ],
    stems: &[
        "salary",
        "gehalt",
        "einkommen",
        "stundenlohn",
        "bruttolohn",
        "nettolohn",
        "creditscore",
    ],
};
/// The special categories of the European Union's General Data Protection Regulation, article 9, and criminal records.
pub(super) const SPECIAL: Terms = Terms {
    terms: &[
        "health",
        "disease",
        "illness",
        "medical",
        "medication",
        "allergy",
        "allergies",
        "disability",
        "disabled",
        "pregnant",
        "bloodtype",
        "bloodgroup",
        "icd",
        "religion",
        "ethnicity",
        "ethnic",
        "race",
        "unionmember",
        "sexualorientation",
        "genetic",
        "dna",
        "conviction",
        "criminalrecord",
        "gesundheit",
        "krankheit",
        "krank",
        "befund",
        "medikament",
        "allergie",
        "schwanger",
        "blutgruppe",
        "konfession",
        "ethnie",
        "gewerkschaft",
        "vorstrafe",
        "vorstrafen",
        "schwerbehindert",
        "biometric",
    ],
    stems: &[
        "diagnos",
        "pregnan",
        "gesundheit",
        "krankheit",
        "behinderung",
        "religion",
        "schwanger",
        "gewerkschaft",
        "disabilit",
        "biometr",
        "sexualit",
        "medikament",
    ],
};
pub(super) const PICTURE: Terms = Terms {
    terms: &[
        "photo",
        "portrait",
        "selfie",
        "avatar",
        "face",
        "fingerprint",
        "iris",
        "retina",
        "signature",
        "foto",
        "passbild",
        "lichtbild",
        "unterschrift",
        "fingerabdruck",
        "voice",
        "stimme",
    ],
    stems: &["photo", "fingerprint", "unterschrift", "fingerabdruck", "signature"],
};
pub(super) const FREE_TEXT: Terms = Terms {
    terms: &[
        "note",
        "notes",
        "comment",
        "comments",
        "remark",
        "remarks",
        "memo",
        "message",
        "messagetext",
        "feedback",
        "freetext",
        "notiz",
        "notizen",
        "bemerkung",
        "bemerkungen",
        "anmerkung",
        "kommentar",
        "kommentare",
        "nachricht",
        "freitext",
        "vermerk",
        "hinweis",
        "body",
        "transcript",
        "mailbody",
    ],
    stems: &["bemerkung", "kommentar", "freitext", "anmerkung"],
};

/// What says little of a person alone, and much together with other columns.
pub(super) const HINT: Terms = Terms {
    terms: &[
        "city",
        "town",
        "village",
        "ort",
        "stadt",
        "wohnort",
        "lat",
        "lon",
        "lng",
        "latitude",
        "longitude",
        "gps",
        "geo",
        "coordinates",
        "koordinaten",
        "location",
        "gender",
        "sex",
        "geschlecht",
        "anrede",
        "salutation",
        "nationality",
        "citizenship",
        "maritalstatus",
        "familienstand",
        "age",
        "alter",
        "occupation",
        "beruf",
        "jobtitle",
        "employer",
        "arbeitgeber",
        "hometown",
    ],
    stems: &["nationalit", "staatsangehoer", "geschlecht"],
};
/// Texts and firms that may be about, or be, a person.
pub(super) const MAYBE: Terms = Terms {
    terms: &[
        "company",
        "firma",
        "firm",
        "description",
        "beschreibung",
        "text",
        "subject",
        "betreff",
        "image",
        "bild",
        "owner",
    ],
    stems: &[],
};
/// Words for what is known by a number of its own.
pub(super) const NUMBERED: &[&str] = &[
    "id", "ids", "key", "nr", "no", "num", "number", "nummer", "guid", "uuid", "code", "ref",
];

/// A name that ends in one of these is about something, and is not the thing itself: `phone_type`.
pub(super) const ABOUT: &[&str] = &[
    "type",
    "typ",
    "status",
    "state",
    "count",
    "anzahl",
    "format",
    "method",
    "kind",
    "art",
    "template",
    "length",
    "size",
    "version",
    "category",
    "kategorie",
    "verified",
    "provider",
    "brand",
    "source",
    "quelle",
    "country",
    "land",
    "currency",
];

/// Words for people: a name beside one of them is a person's.
pub(super) const PERSONS: &[&str] = &[
    "customer",
    "client",
    "person",
    "people",
    "user",
    "employee",
    "staff",
    "contact",
    "patient",
    "member",
    "guest",
    "student",
    "teacher",
    "driver",
    "owner",
    "holder",
    "applicant",
    "candidate",
    "subscriber",
    "visitor",
    "passenger",
    "partner",
    "father",
    "mother",
    "child",
    "children",
    "spouse",
    "kunde",
    "klient",
    "nutzer",
    "benutzer",
    "mitarbeiter",
    "mitglied",
    "gast",
    "gaeste",
    "schueler",
    "lehrer",
    "fahrer",
    "inhaber",
    "bewerber",
    "teilnehmer",
    "angestellt",
    "vertreter",
    "vater",
    "mutter",
    "kinder",
    "personal",
    "patienten",
    "author",
    "autor",
];

/// Words for things: a name beside one of them is the thing's, unless a person stands beside it too.
pub(super) const THINGS: &[&str] = &[
    "product",
    "item",
    "article",
    "file",
    "folder",
    "table",
    "column",
    "field",
    "schema",
    "database",
    "db",
    "server",
    "host",
    "domain",
    "category",
    "group",
    "type",
    "class",
    "kind",
    "status",
    "state",
    "country",
    "currency",
    "language",
    "region",
    "brand",
    "model",
    "event",
    "project",
    "task",
    "job",
    "role",
    "department",
    "team",
    "store",
    "shop",
    "warehouse",
    "plan",
    "package",
    "feature",
    "service",
    "app",
    "application",
    "program",
    "campaign",
    "color",
    "colour",
    "unit",
    "tag",
    "label",
    "index",
    "process",
    "queue",
    "topic",
    "menu",
    "page",
    "report",
    "order",
    "station",
    "line",
    "drug",
    "produkt",
    "artikel",
    "datei",
    "ordner",
    "tabelle",
    "spalte",
    "feld",
    "datenbank",
    "kategorie",
    "gruppe",
    "typ",
    "klasse",
    "art",
    "land",
    "waehrung",
    "sprache",
    "marke",
    "modell",
    "projekt",
    "aufgabe",
    "rolle",
    "abteilung",
    "filiale",
    "lager",
    "ware",
    "farbe",
    "einheit",
    "anlage",
    "maschine",
    "veranstaltung",
    "parameter",
    "property",
    "attribute",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_falls_into_its_words_however_it_is_written() {
        for (name, parts) in [
            ("first_name", vec!["first", "name"]),
            ("FirstName", vec!["first", "name"]),
            ("firstName2", vec!["first", "name", "2"]),
            ("HTTPProxyURL", vec!["http", "proxy", "url"]),
            ("E-Mail", vec!["e", "mail"]),
            ("Straße", vec!["strasse"]),
            ("GRÖSSE", vec!["groesse"]),
            ("  ", vec![]),
            ("prénom [alt]", vec!["prenom", "alt"]),
            ("address1line2", vec!["address", "1", "line", "2"]),
        ] {
            assert_eq!(words(name), parts, "{name}");
        }
    }

    #[test]
    fn terms_are_whole_words_or_several_in_a_row_and_stems_are_parts() {
        let found = |terms: &Terms, name: &str| terms.are_in(&words(name));
        assert!(found(&EMAIL, "E-Mail") && found(&EMAIL, "kundenemail") && found(&EMAIL, "EMailAddress"));
        assert!(found(&DEVICE, "last_ip") && !found(&DEVICE, "shipment") && !found(&DEVICE, "description"));
        assert!(found(&SECRET, "pin") && !found(&SECRET, "shipping") && !found(&SECRET, "spinning"));
        assert!(found(&PAY, "BruttoLohn") && !found(&PAY, "schablohne"));
    }

    #[test]
    fn a_plural_is_as_good_as_its_singular() {
        for word in ["products", "categories", "classes", "produkte", "kategorien", "item"] {
            assert!(is_one_of(word, THINGS), "{word}");
        }
        assert!(is_one_of("kunden", PERSONS) && is_one_of("customers", PERSONS) && !is_one_of("rows", PERSONS));
    }
}

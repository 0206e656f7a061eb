//! The vectors of NIST are below the derivation of the key; those above it come from an FF1 in Python over the AES of
//! `cryptography`, which gives NIST's vectors too.

use std::hint::black_box;
use std::time::{Duration, Instant};

use aes::{Aes128, Aes192};

use super::*;
use crate::transform::cells::testing::{column, rows_of, texts};
use crate::transform::hostcall::testing::{bounded, within};
use crate::transform::sandbox::DeadlinePassed;

const SECRET: &[u8] = b"0123456789abcdef";
const DIGITS: &str = "0123456789";
const LETTERS_TOO: &str = "0123456789abcdefghijklmnopqrstuvwxyz";

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
        .collect()
}

fn of_secret(alphabet: &str) -> TextCipher<Aes256> {
    TextCipher::of_secret(SECRET, Alphabet::new(alphabet).unwrap()).unwrap()
}

impl<C: KeyInit + BlockCipherEncrypt + Clone> TextCipher<C> {
    fn answer(&self, tweak: &[u8], rows: &[Option<&str>]) -> (Vec<Option<String>>, Vec<Ff1Status>) {
        let column = texts(rows);
        let cells = Cells::new(u32::try_from(rows.len()).unwrap(), &column).unwrap();
        let answer = bounded(|call| self.encrypt_column(tweak, &cells, call))
            .unwrap()
            .unwrap();
        (rows_of(&answer.values), answer.status)
    }

    fn text(&self, tweak: &[u8], text: &str) -> String {
        let (mut values, status) = self.answer(tweak, &[Some(text)]);
        assert_eq!(status, [Ff1Status::Done]);
        values.remove(0).unwrap()
    }

    /// The same with big integers.
    fn text_in_big_integers(mut self, tweak: &[u8], text: &str) -> String {
        self.max_small_chars = 0;
        self.text(tweak, text)
    }
}

/// <https://csrc.nist.gov/CSRC/media/Projects/Cryptographic-Standards-and-Guidelines/documents/examples/FF1samples.pdf>
#[test]
fn the_sample_vectors_of_sp_800_38g_hold() {
    const KEY: &str = "2B7E151628AED2A6ABF7158809CF4F3CEF4359D8D580AA4F7F036D6F04FC6A94";
    const TWEAK: &str = "39383736353433323130";
    const TWEAK_OF_LETTERS: &str = "3737373770717273373737";
    const LETTERS: &str = "0123456789abcdefghi";
    let samples = [
        (1, 16, "", DIGITS, DIGITS, "2433477484"),
        (2, 16, TWEAK, DIGITS, DIGITS, "6124200773"),
        (3, 16, TWEAK_OF_LETTERS, LETTERS_TOO, LETTERS, "a9tv40mll9kdu509eum"),
        (4, 24, "", DIGITS, DIGITS, "2830668132"),
        (5, 24, TWEAK, DIGITS, DIGITS, "2496655549"),
        (6, 24, TWEAK_OF_LETTERS, LETTERS_TOO, LETTERS, "xbj3kv35jrawxv32ysr"),
        (7, 32, "", DIGITS, DIGITS, "6657667009"),
        (8, 32, TWEAK, DIGITS, DIGITS, "1001623463"),
        (9, 32, TWEAK_OF_LETTERS, LETTERS_TOO, LETTERS, "xs8a0azh2avyalyzuwd"),
    ];
    fn both<C: KeyInit + BlockCipherEncrypt + Clone>(
        key: &[u8],
        alphabet: &str,
        tweak: &[u8],
        text: &str,
    ) -> [String; 2] {
        let cipher = || TextCipher::<C>::new(key, Alphabet::new(alphabet).unwrap()).unwrap();
        [cipher().text(tweak, text), cipher().text_in_big_integers(tweak, text)]
    }
    for (sample, key_bytes, tweak, alphabet, plain, expected) in samples {
        let key = &bytes(KEY)[..key_bytes];
        let both = match key_bytes {
            16 => both::<Aes128>(key, alphabet, &bytes(tweak), plain),
            24 => both::<Aes192>(key, alphabet, &bytes(tweak), plain),
            _ => both::<Aes256>(key, alphabet, &bytes(tweak), plain),
        };
        assert_eq!(both, [expected, expected], "sample {sample}");
    }
}

#[test]
fn texts_are_those_of_another_implementation_from_the_secret_on() {
    let emoji: String = (0x1F600..0x1F640).filter_map(char::from_u32).collect();
    let plane: String = (0x10000..0x20000).filter_map(char::from_u32).collect();
    let hundred = DIGITS.repeat(10) + "7";
    for (alphabet, tweak, plain, expected) in [
        (DIGITS, "customer", "4111111111111111", "9060178568351714"),
        (DIGITS, "", "123456", "755108"),
        (
            DIGITS,
            "t",
            &hundred,
            "47001041044074946652347849458834297036824568557910236141090889187757941757908972043156233494236938104",
        ),
        ("01", "", "01010101010101010101", "00101100001101001000"),
        ("αβγδεζηθικλμνξοπρστυφχψω", "", "αλφαβητο", "ηθωνολφφ"),
        (
            &emoji,
            "x",
            "\u{1F601}\u{1F602}\u{1F603}\u{1F63F}",
            "\u{1F638}\u{1F63B}\u{1F63F}\u{1F60D}",
        ),
        (&plane, "", "\u{10000}\u{1FFFF}", "\u{162C6}\u{1CB76}"),
    ] {
        assert_eq!(of_secret(alphabet).text(tweak.as_bytes(), plain), expected);
        assert_eq!(
            of_secret(alphabet).text_in_big_integers(tweak.as_bytes(), plain),
            expected
        );
    }
}

#[test]
fn the_longest_text_is_encrypted_and_one_longer_is_not() {
    let cipher = of_secret(DIGITS);
    let longest = "31415926535897932384".repeat(51) + "6264";
    let made = cipher.text(b"", &longest);
    assert_eq!((made.len(), &made[..20]), (1024, "95094242594898445099"));
    assert_eq!(
        crate::sha256::hex(made.as_bytes()),
        "2094f7eb7d9e00ba25ee4ef427738255ce4e79690b8a7838eeb60cd979f04ea7"
    );
    // Characters count, whatever their bytes; a foreign one is told before the length.
    let (values, status) = cipher.answer(b"", &[Some(&(longest + "0")), Some(&("1".repeat(2000) + "a"))]);
    assert_eq!(values, [None, None]);
    assert_eq!(status, [Ff1Status::TooLong, Ff1Status::ForeignCharacter]);
    let (_, status) = of_secret("éè").answer(b"", &[Some(&"é".repeat(1024)), Some(&"é".repeat(1025))]);
    assert_eq!(status, [Ff1Status::Done, Ff1Status::TooLong]);
}

#[test]
fn each_value_that_is_not_encrypted_says_why_and_is_null() {
    let rows = [
        Some("1234567890"),
        None,
        Some(""),
        Some("12345"),
        Some("12345a"),
        Some("12a"),
        Some("123 456"),
        Some("１２３４５６"),
        Some("123456"),
    ];
    let (values, status) = of_secret(DIGITS).answer(b"", &rows);
    use Ff1Status::{Done, ForeignCharacter, TooShort};
    assert_eq!(
        status,
        [
            Done,
            Done,
            TooShort,
            TooShort,
            ForeignCharacter,
            ForeignCharacter,
            ForeignCharacter,
            ForeignCharacter,
            Done
        ]
    );
    let mut expected = [None; 9];
    (expected[0], expected[8]) = (Some("0254764135"), Some("755108"));
    assert_eq!(values, expected.map(|text| text.map(str::to_owned)));
}

#[test]
fn a_value_that_is_one_of_fewer_than_a_million_is_too_short() {
    let letters = "abcdefghijklmnopqrstuvwxyz";
    let plane: String = (0x10000..0x20000).filter_map(char::from_u32).collect();
    // 2^20, 10^6, 26^5 and 65,536^2 are the first powers that suffice.
    for (alphabet, enough) in [("01", 20), (DIGITS, 6), (letters, 5), (&plane, 2)] {
        let first: String = alphabet.chars().take(1).collect();
        let cipher = of_secret(alphabet);
        let (_, status) = cipher.answer(b"", &[Some(&first.repeat(enough - 1)), Some(&first.repeat(enough))]);
        assert_eq!(status, [Ff1Status::TooShort, Ff1Status::Done], "{enough}");
    }
}

#[test]
fn machine_integers_and_big_ones_agree_up_to_the_border() {
    for alphabet in ["01", "012", DIGITS, LETTERS_TOO] {
        let radix = alphabet.len();
        let border = halves::max_chars(radix as u32);
        let mut state = 1_usize;
        for chars in [20, 21, border / 2, border - 1, border] {
            let text: String = (0..chars)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    &alphabet[(state >> 33) % radix..][..1]
                })
                .collect();
            let all_last = alphabet[radix - 1..].repeat(chars);
            for text in [text, all_last] {
                let small = of_secret(alphabet).text(b"tweak", &text);
                assert_eq!(
                    small,
                    of_secret(alphabet).text_in_big_integers(b"tweak", &text),
                    "{radix} {chars}"
                );
                assert_ne!(small, text);
            }
        }
    }
}

#[test]
fn a_ciphertext_leads_back() {
    let cipher = of_secret(DIGITS);
    let plain: Vec<u16> = (0..16).map(|n| n % 10).collect();
    let made = cipher.ff1.encrypt(b"t", &Halves::of_digits(&plain, 10)).unwrap();
    let back = cipher.ff1.decrypt(b"t", &made).unwrap();
    let mut digits = vec![0; 16];
    back.write_digits(10, &mut digits);
    assert_eq!(digits, plain);
}

#[test]
fn bytes_that_are_no_text_make_the_column_malformed_unless_they_are_null() {
    let cipher = of_secret(DIGITS);
    let encrypt = |validity: u8| {
        let binary = column(Some(vec![validity]), &[0, 6, 8], b"123456\xFF\xFE");
        let cells = Cells::new(2, &binary).unwrap();
        bounded(|call| cipher.encrypt_column(b"", &cells, call)).unwrap()
    };
    assert!(encrypt(0b11).is_none());
    assert_eq!(encrypt(0b01).unwrap().status, [Ff1Status::Done; 2]);
    // A character that two rows share is one of neither.
    let cut = column(None, &[0, 1, 2], "é".as_bytes());
    let cells = Cells::new(2, &cut).unwrap();
    assert!(
        bounded(|call| cipher.encrypt_column(b"", &cells, call))
            .unwrap()
            .is_none()
    );
}

#[test]
fn an_empty_column_is_answered_by_one() {
    let (values, status) = of_secret(DIGITS).answer(b"", &[]);
    assert!(values.is_empty() && status.is_empty());
}

#[test]
fn the_deadline_and_the_memory_limit_hold() {
    let cipher = of_secret("αβ");
    let value = "α".repeat(20);
    let column = texts(&[Some(&value), Some(&value)]);
    let cells = Cells::new(2, &column).unwrap();
    let late = within(Duration::ZERO, 1 << 20, |call| cipher.encrypt_column(b"", &cells, call));
    assert!(late.unwrap_err().is::<DeadlinePassed>());
    // 3 offsets, a byte of validity, 2 of status, 80 of text.
    let minute = Duration::from_secs(60);
    for (bytes, fits) in [(14, false), (94, false), (95, true)] {
        within(minute, bytes, |call| {
            assert_eq!(cipher.encrypt_column(b"", &cells, call).is_ok(), fits, "{bytes}");
            assert_eq!(call.limiter.memory_refused(), !fits);
        });
    }
}

/// Says how many HMACs a value costs, in machine integers and in big ones; `cargo test -- --nocapture` shows it.
#[test]
fn a_column_costs_so_many_tags() {
    let rows = [Some("4111111111111111"); 500];
    let time = |work: &dyn Fn()| {
        let started = Instant::now();
        work();
        started.elapsed().as_secs_f64()
    };
    let tagger = Tagger::of_context(SECRET, "t");
    let tags = time(&|| {
        for row in rows.iter().flatten() {
            black_box(tagger.tag(row.as_bytes()));
        }
    });
    let small = of_secret(DIGITS);
    let mut big = of_secret(DIGITS);
    big.max_small_chars = 0;
    let of = |cipher: &TextCipher<Aes256>| {
        let seconds = time(&|| {
            black_box(cipher.answer(b"t", &rows));
        });
        seconds / tags
    };
    println!(
        "FF1 of 16 digits: {:.1} tags; in big integers: {:.1}",
        of(&small),
        of(&big)
    );
    assert_eq!(small.answer(b"t", &rows), big.answer(b"t", &rows));
}

//! Conversions with SQL Server's answers, extremes included.

use super::*;
use crate::types::days_from_civil;

const NV: SqlType = SqlType::NVarChar(Length::Max);

fn text(t: &str) -> Value {
    Value::Text(t.into())
}

fn from_text(t: &str, to: SqlType) -> SqlResult<Value> {
    convert(&text(t), NV, to)
}

fn number(result: SqlResult<Value>) -> i32 {
    result.unwrap_err().number
}

#[test]
fn numbers_from_text_and_their_errors() {
    assert_eq!(from_text(" 12 ", SqlType::Int), Ok(Value::Int(12)));
    assert_eq!(number(from_text("abc", SqlType::Int)), 245);
    assert_eq!(number(from_text("99999999999", SqlType::Int)), 248);
    assert_eq!(number(from_text("abc", SqlType::BigInt)), 8114);
    assert_eq!(
        number(from_text("abc", SqlType::Decimal { precision: 5, scale: 2 })),
        8114
    );
    assert_eq!(
        number(from_text("1000", SqlType::Decimal { precision: 5, scale: 2 })),
        8115
    );
    assert_eq!(
        from_text("1.005", SqlType::Decimal { precision: 5, scale: 2 }),
        Ok(Value::Decimal(101))
    );
    assert_eq!(
        from_text("-922337203685477.5808", SqlType::Money),
        Ok(Value::Decimal(i128::from(i64::MIN)))
    );
    assert_eq!(number(from_text("922337203685477.5808", SqlType::Money)), 8115);
    assert_eq!(
        number(convert(&Value::Int(70_000), SqlType::Int, SqlType::SmallInt)),
        220
    );
    assert_eq!(
        number(convert(&Value::Int(1 << 40), SqlType::BigInt, SqlType::Int)),
        8115
    );
}

#[test]
fn dates_keep_their_extremes() {
    let last = i64::from(days_from_civil(9999, 12, 31).unwrap()) * TICKS_PER_DAY + TICKS_PER_DAY - 1;
    let t = "9999-12-31 23:59:59.9999999";
    assert_eq!(from_text(t, SqlType::DateTime2(7)), Ok(Value::DateTime(last)));
    assert_eq!(
        from_text(t, SqlType::DateTime2(0)),
        Ok(Value::DateTime(last - 9_999_999))
    );
    assert_eq!(from_text("0001-01-01", SqlType::Date), Ok(Value::Date(0)));
    assert_eq!(number(from_text("0001-01-01", SqlType::DateTime)), 242);
    assert_eq!(number(from_text("2023-02-30", SqlType::Date)), 241);
    assert_eq!(number(from_text("tomorrow", SqlType::Date)), 241);
    let offset = from_text("2024-01-01T00:30:00+02:00", SqlType::DateTimeOffset(0)).unwrap();
    let midnight = i64::from(days_from_civil(2024, 1, 1).unwrap()) * TICKS_PER_DAY;
    assert_eq!(
        offset,
        Value::DateTimeOffset(midnight - 90 * 60 * TICKS_PER_SECOND, 120)
    );
}

#[test]
fn text_is_cut_by_cast_and_refused_by_assignment() {
    let nv3 = SqlType::NVarChar(Length::Limited(3));
    assert_eq!(convert(&text("abcd"), NV, nv3), Ok(text("abc")));
    assert_eq!(assign_in(&text("abcd"), NV, nv3, Collation::default().page), Ok(None));
    assert_eq!(
        assign_in(&text("abc  "), NV, nv3, Collation::default().page),
        Ok(Some(text("abc")))
    );
    // A supplementary character takes two units.
    assert_eq!(
        assign_in(&text("a😀"), NV, nv3, Collation::default().page),
        Ok(Some(text("a😀")))
    );
    assert_eq!(assign_in(&text("ab😀"), NV, nv3, Collation::default().page), Ok(None));
    assert_eq!(convert(&text("ab"), NV, SqlType::Char(4)), Ok(text("ab  ")));
    assert_eq!(
        convert(&text("€ and 漢"), NV, SqlType::VarChar(Length::Max)),
        Ok(text("€ and ?"))
    );
}

#[test]
fn bytes_numbers_and_guids() {
    let bin = SqlType::Binary(10);
    assert_eq!(
        convert(&Value::Int(1), SqlType::Int, bin),
        Ok(Value::Bytes(vec![0, 0, 0, 0, 0, 0, 0, 0, 0, 1]))
    );
    assert_eq!(
        convert(
            &Value::Bytes(vec![1]),
            SqlType::VarBinary(Length::Max),
            SqlType::Binary(2)
        ),
        Ok(Value::Bytes(vec![1, 0]))
    );
    assert_eq!(
        convert_styled(&text("0x0AFF"), NV, SqlType::VarBinary(Length::Max), 1),
        Ok(Value::Bytes(vec![10, 255]))
    );
    let guid = from_text("00112233-4455-6677-8899-AABBCCDDEEFF", SqlType::UniqueIdentifier).unwrap();
    let Value::Guid(bytes) = guid else { panic!("no guid") };
    assert_eq!(bytes[..4], [0, 0x11, 0x22, 0x33]);
    assert_eq!(number(from_text("xyz", SqlType::UniqueIdentifier)), 8169);
}

#[test]
fn implicit_conversion_follows_the_chart() {
    assert!(implicit_allowed(NV, SqlType::Int));
    assert!(!implicit_allowed(NV, SqlType::Binary(3)));
    assert!(!implicit_allowed(SqlType::Int, SqlType::Date));
    assert!(implicit_allowed(SqlType::Int, SqlType::DateTime));
    assert!(implicit_allowed(SqlType::Date, SqlType::DateTime2(3)));
}

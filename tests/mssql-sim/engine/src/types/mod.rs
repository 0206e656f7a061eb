//! SQL Server's type system: names, precedence, and the values of each type in text and storage form.

mod arithmetic;
mod calendar;
mod code_page;
mod collation;
mod convert;
mod decimal;
mod storage;
mod text_form;
mod type_name;

pub use arithmetic::{Arithmetic, arithmetic, arithmetic_type, avg_type, decimal_shape, negate};
pub use calendar::{
    DAYS_MAX, TICKS_PER_DAY, TICKS_PER_SECOND, civil_from_days, days_from_civil, last_day_of_month, round_to_datetime,
    weekday,
};
pub use code_page::{
    CodePage, Collation, DEFAULT_COLLATION, as_lone_unit, decode_utf16, encode_utf16, lone_unit, units_of,
};
pub use collation::{Like, compare_text, fold};
pub use convert::{assign_in, convert, convert_styled, implicit_allowed};
pub use decimal::{parse_decimal, pow10, rescale};
pub use storage::{decode, decode_into, encode, encode_owned};
pub use text_form::{to_text, type_default_text};
pub use type_name::{code_of, common_type, parse_type, rank, type_of_code};

use crate::value::{Length, SqlType};

impl SqlType {
    /// Whether values are [`crate::value::Value::Int`].
    pub fn is_integer(self) -> bool {
        matches!(
            self,
            SqlType::Bit | SqlType::TinyInt | SqlType::SmallInt | SqlType::Int | SqlType::BigInt
        )
    }

    /// Whether values are [`crate::value::Value::Decimal`].
    pub fn is_decimal(self) -> bool {
        matches!(self, SqlType::Decimal { .. } | SqlType::Money | SqlType::SmallMoney)
    }

    /// Whether values are [`crate::value::Value::Float`].
    pub fn is_float(self) -> bool {
        matches!(self, SqlType::Real | SqlType::Float)
    }

    /// Whether arithmetic applies.
    pub fn is_number(self) -> bool {
        self.is_integer() || self.is_decimal() || self.is_float()
    }

    /// Whether values are [`crate::value::Value::Text`].
    pub fn is_text(self) -> bool {
        self.is_national() || self.is_code_page()
    }

    /// Whether the text is Unicode.
    pub fn is_national(self) -> bool {
        matches!(
            self,
            SqlType::NChar(_)
                | SqlType::NVarChar(_)
                | SqlType::NText
                | SqlType::Xml
                | SqlType::Json
                | SqlType::Vector(_)
        )
    }

    /// Whether the text is in a code page.
    pub fn is_code_page(self) -> bool {
        matches!(self, SqlType::Char(_) | SqlType::VarChar(_) | SqlType::Text)
    }

    /// Whether a column of the type has a collation.
    pub fn has_collation(self) -> bool {
        self.is_text() && !matches!(self, SqlType::Xml | SqlType::Json | SqlType::Vector(_))
    }

    /// Whether values are [`crate::value::Value::Bytes`].
    pub fn is_bytes(self) -> bool {
        matches!(
            self,
            SqlType::Binary(_)
                | SqlType::VarBinary(_)
                | SqlType::Image
                | SqlType::RowVersion
                | SqlType::HierarchyId
                | SqlType::Geometry
                | SqlType::Geography
        )
    }

    /// Whether it is one of the old long types, which CDC leaves out of deletes and of old images.
    pub fn is_old_lob(self) -> bool {
        matches!(self, SqlType::Text | SqlType::NText | SqlType::Image)
    }

    /// Whether values are [`crate::value::Value::DateTime`].
    pub fn is_datetime(self) -> bool {
        matches!(self, SqlType::DateTime | SqlType::SmallDateTime | SqlType::DateTime2(_))
    }

    /// Whether the type is a date, a time of day, or both.
    pub fn is_temporal(self) -> bool {
        self.is_datetime() || matches!(self, SqlType::Date | SqlType::Time(_) | SqlType::DateTimeOffset(_))
    }

    /// Whether it is one of the `(max)` types, whose old image CDC leaves out of an update that did not change it.
    pub fn is_max(self) -> bool {
        matches!(
            self,
            SqlType::VarChar(Length::Max) | SqlType::NVarChar(Length::Max) | SqlType::VarBinary(Length::Max)
        )
    }

    /// Digits after the point of the exact form of the type (0 for integers, 4 for money).
    pub fn scale(self) -> u8 {
        match self {
            SqlType::Decimal { scale, .. } => scale,
            SqlType::Money | SqlType::SmallMoney => 4,
            _ => 0,
        }
    }
}

//! Values and types as SQL Server has them, before they take wire or storage form.

/// A declared SQL Server type. Lengths are in characters for `n` types and in bytes for the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SqlType {
    /// 0 or 1.
    Bit,
    /// 0 to 255.
    TinyInt,
    /// 16 bits, signed.
    SmallInt,
    /// 32 bits, signed.
    Int,
    /// 64 bits, signed.
    BigInt,
    /// `real`: 4 bytes.
    Real,
    /// `float`: 8 bytes.
    Float,
    /// `decimal` and `numeric`.
    Decimal {
        /// Digits, 1 to 38.
        precision: u8,
        /// Digits after the point.
        scale: u8,
    },
    /// 64 bits, a count of 1/10,000.
    Money,
    /// 32 bits, a count of 1/10,000.
    SmallMoney,
    /// 0001-01-01 to 9999-12-31.
    Date,
    /// Fractional digits, 0 to 7.
    Time(u8),
    /// From 1753, in 1/300 s.
    DateTime,
    /// 1900 to 2079, in minutes.
    SmallDateTime,
    /// Fractional digits, 0 to 7.
    DateTime2(u8),
    /// Fractional digits, 0 to 7.
    DateTimeOffset(u8),
    /// Fixed length, code page text.
    Char(u16),
    /// Fixed length, Unicode.
    NChar(u16),
    /// Variable length, code page text.
    VarChar(Length),
    /// Variable length, Unicode.
    NVarChar(Length),
    /// Fixed length bytes.
    Binary(u16),
    /// Variable length bytes.
    VarBinary(Length),
    /// 16 bytes.
    UniqueIdentifier,
    /// Code page text, up to 2 GB, of the old kind.
    Text,
    /// Unicode text, up to 2 GB, of the old kind.
    NText,
    /// Bytes, up to 2 GB, of the old kind.
    Image,
    /// XML as text, as it was given.
    Xml,
    /// JSON as text, as it was given.
    Json,
    /// So many 32-bit numbers, as a JSON array.
    Vector(u16),
    /// `timestamp`: 8 bytes that the server makes, anew with every change of the row.
    RowVersion,
    /// `sql_variant`. The stand-in holds nothing but NULL in it.
    Variant,
    /// `hierarchyid`, as its bytes.
    HierarchyId,
    /// `geometry`, as its bytes.
    Geometry,
    /// `geography`, as its bytes.
    Geography,
}

/// The length of a variable-length type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Length {
    /// Up to 2 GB.
    Max,
    /// Up to so many characters or bytes.
    Limited(u16),
}

/// One value. Which variants a [`SqlType`] takes: the integer types and `bit` take `Int`; `real` and `float` take
/// `Float`; `decimal`, `money` and `smallmoney` take `Decimal`; text types, `xml`, `json` and `vector` take `Text`; binary
/// types, `rowversion`, `hierarchyid` and the spatial types take `Bytes`; the others their own.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// NULL of any type.
    Null,
    /// An integer or bit.
    Int(i64),
    /// A real or float.
    Float(f64),
    /// The value times 10^scale; the scale is that of the type.
    Decimal(i128),
    /// Text of any type.
    Text(String),
    /// Bytes of any type.
    Bytes(Vec<u8>),
    /// Bytes in the order of the text form: `00112233-4455-…` is `[0x00, 0x11, 0x22, 0x33, 0x44, 0x55, …]`.
    Guid([u8; 16]),
    /// Days since 0001-01-01.
    Date(i32),
    /// Units of 100 ns since midnight.
    Time(i64),
    /// Units of 100 ns since 0001-01-01T00:00:00 (`datetime`, `smalldatetime`, `datetime2`), local to the server.
    DateTime(i64),
    /// UTC, in units of 100 ns since 0001-01-01T00:00:00, and the offset in minutes.
    DateTimeOffset(i64, i16),
}

//! SUM and AVG with exact results and T-SQL's overflow. COUNT, MIN and MAX are SQLite's own: storage order is value order.

use rusqlite::{
    Result,
    functions::{Aggregate, Context, WindowAggregate},
    types::Value as Stored,
};

use super::register::fail;
use crate::{
    error::{SqlResult, overflow, sql_error},
    types::{avg_type, decode, encode_owned, rescale, type_of_code},
    value::{SqlType, Value},
};

/// The type of `SUM`, `AVG`, `MIN` and `MAX` over a type.
///
/// # Errors
/// 8117 for a type that the aggregate does not take, 195 for an unknown aggregate.
pub fn aggregate_type(name: &str, ty: SqlType) -> SqlResult<SqlType> {
    let summed = name == "SUM" || name == "AVG";
    if summed && (!ty.is_number() || ty == SqlType::Bit) {
        return Err(sql_error(
            8117,
            16,
            format!(
                "Operand data type {ty} is invalid for {} operator.",
                name.to_lowercase()
            ),
        ));
    }
    if ty == SqlType::Bit {
        return Err(sql_error(
            8117,
            16,
            format!("Operand data type bit is invalid for {} operator.", name.to_lowercase()),
        ));
    }
    Ok(match name {
        "AVG" => avg_type(ty),
        "SUM" => match ty {
            SqlType::TinyInt | SqlType::SmallInt => SqlType::Int,
            SqlType::Decimal { scale, .. } => SqlType::Decimal { precision: 38, scale },
            SqlType::SmallMoney => SqlType::Money,
            SqlType::Real => SqlType::Float,
            other => other,
        },
        _ => ty,
    })
}

/// A running total of one group or window frame.
#[derive(Default)]
pub(super) struct Total {
    count: i64,
    exact: i128,
    float: f64,
    ty: i64,
}

/// `tsum(value, type)` or `tavg(value, type)`.
pub(super) struct Sum {
    pub(super) average: bool,
}

impl Sum {
    fn change(&self, ctx: &Context<'_>, total: &mut Total, sign: i128) -> Result<()> {
        total.ty = ctx.get(1)?;
        let ty = type_of_code(total.ty);
        match decode(ctx.get_raw(0), ty) {
            Value::Null => return Ok(()),
            Value::Int(v) => total.exact += sign * i128::from(v),
            Value::Float(v) => total.float += sign as f64 * v,
            Value::Decimal(v) => {
                total.exact = total
                    .exact
                    .checked_add(sign * v)
                    .ok_or_else(|| fail(overflow("expression", "numeric")))?;
            }
            _ => {}
        }
        total.count += sign as i64;
        Ok(())
    }

    fn answer(&self, total: &Total) -> Result<Stored> {
        if total.count == 0 {
            return Ok(Stored::Null);
        }
        let ty = type_of_code(total.ty);
        let name = if self.average { "AVG" } else { "SUM" };
        let result = aggregate_type(name, ty).map_err(fail)?;
        let too_big = || fail(overflow("expression", &result.to_string()));
        let value = if ty.is_float() {
            Value::Float(if self.average {
                total.float / total.count as f64
            } else {
                total.float
            })
        } else if ty.is_integer() {
            let v = if self.average {
                total.exact / i128::from(total.count)
            } else {
                total.exact
            };
            let v = i64::try_from(v).map_err(|_| too_big())?;
            if result == SqlType::Int && i32::try_from(v).is_err() {
                return Err(too_big());
            }
            Value::Int(v)
        } else {
            let v = rescale(total.exact, ty.scale(), result.scale()).ok_or_else(too_big)?;
            let v = if self.average { v / i128::from(total.count) } else { v };
            if result == SqlType::Money && i64::try_from(v).is_err() {
                return Err(too_big());
            }
            Value::Decimal(v)
        };
        Ok(encode_owned(value))
    }
}

impl Aggregate<Total, Stored> for Sum {
    fn init(&self, _: &mut Context<'_>) -> Result<Total> {
        Ok(Total::default())
    }

    fn step(&self, ctx: &mut Context<'_>, total: &mut Total) -> Result<()> {
        self.change(ctx, total, 1)
    }

    fn finalize(&self, _: &mut Context<'_>, total: Option<Total>) -> Result<Stored> {
        self.answer(&total.unwrap_or_default())
    }
}

impl WindowAggregate<Total, Stored> for Sum {
    fn value(&self, total: Option<&mut Total>) -> Result<Stored> {
        total.map_or(Ok(Stored::Null), |t| self.answer(t))
    }

    fn inverse(&self, ctx: &mut Context<'_>, total: &mut Total) -> Result<()> {
        self.change(ctx, total, -1)
    }
}

/// `tsingle(value)`: the value of the one row of a scalar subquery, NULL for none, error 512 for two.
pub(super) struct Single;

impl Aggregate<Option<Stored>, Stored> for Single {
    fn init(&self, _: &mut Context<'_>) -> Result<Option<Stored>> {
        Ok(None)
    }

    fn step(&self, ctx: &mut Context<'_>, found: &mut Option<Stored>) -> Result<()> {
        if found.is_some() {
            return Err(fail(sql_error(
                512,
                16,
                "Subquery returned more than 1 value. This is not permitted when the subquery follows =, !=, <, <= , >, >= or when the subquery is used as an expression.",
            )));
        }
        *found = Some(ctx.get(0)?);
        Ok(())
    }

    fn finalize(&self, _: &mut Context<'_>, found: Option<Option<Stored>>) -> Result<Stored> {
        Ok(found.flatten().unwrap_or(Stored::Null))
    }
}

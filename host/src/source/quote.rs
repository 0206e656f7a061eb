//! The one place where names and literals become T-SQL text. Values that can be bound are bound instead.

/// A name in brackets: `Co Inc$Loc.a]b` becomes `[Co Inc$Loc.a]]b]`.
pub(super) fn name(name: &str) -> String {
    format!("[{}]", name.replace(']', "]]"))
}

/// A Unicode literal: `it's` becomes `N'it''s'`.
pub(super) fn literal(text: &str) -> String {
    format!("N'{}'", text.replace('\'', "''"))
}

/// The change table of a capture instance.
pub(crate) fn change_table(capture_instance: &str) -> String {
    format!("[cdc].{}", name(&format!("{capture_instance}_CT")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_and_quotes_are_doubled() {
        assert_eq!(name("Co Inc$Loc.a]b"), "[Co Inc$Loc.a]]b]");
        assert_eq!(literal("it's"), "N'it''s'");
        assert_eq!(change_table("dbo_a]b"), "[cdc].[dbo_a]]b_CT]");
    }
}

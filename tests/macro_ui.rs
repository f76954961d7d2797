//! Cases 2, 9, 11 and 44: what the compiler says to a user who made a mistake, word for word.
//!
//! After a deliberate change, or with a compiler that words its own part otherwise: `TRYBUILD=overwrite cargo test --test macro_ui`,
//! and read the difference.

#[test]
fn mistakes() {
    trybuild::TestCases::new().compile_fail("tests/ui/*/*.rs");
}

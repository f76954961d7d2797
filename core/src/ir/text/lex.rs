//! Words, numbers, strings and signs, with where they stand.

use crate::error::{Error, Result};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Word(String),
    /// A number as it is written.
    Number(String),
    Text(String),
    Sign(char),
    /// The end of a line that has something on it, or of the text.
    End,
}

#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) line: usize,
    pub(super) column: usize,
}

impl Place {
    pub(super) fn error(&self, text: impl std::fmt::Display) -> Error {
        Error::argument(format!("line {}, column {}: {text}", self.line, self.column))
    }
}

/// The tokens of a text. `#` starts a comment.
pub(super) fn tokens(text: &str) -> Result<Vec<(Token, Place)>> {
    let mut tokens: Vec<(Token, Place)> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let chars: Vec<char> = line.chars().collect();
        let mut at = 0;
        let before = tokens.len();
        while at < chars.len() {
            let place = Place { line: number + 1, column: at + 1 };
            let c = chars[at];
            if c.is_whitespace() {
                at += 1;
            } else if c == '#' {
                break;
            } else if c == '"' {
                let (text, end) = string(&chars, at + 1).ok_or_else(|| place.error("a text that does not end"))?;
                tokens.push((Token::Text(text), place));
                at = end;
            } else {
                let word = c.is_alphabetic() || c == '_';
                // `-inf` is a number; `+` appears in exponents.
                let number = c.is_ascii_digit() || c == '-';
                let inside = |c: char| c.is_alphanumeric() || c == '_' || (number && matches!(c, '.' | '-' | '+'));
                let mut end = at + 1;
                while (word || number) && end < chars.len() && inside(chars[end]) {
                    end += 1;
                }
                let text: String = chars[at..end].iter().collect();
                let token = match (word, number) {
                    (true, _) => Token::Word(text),
                    (_, true) => Token::Number(text),
                    _ => Token::Sign(c),
                };
                tokens.push((token, place));
                at = end;
            }
        }
        if tokens.len() > before {
            tokens.push((Token::End, Place { line: number + 1, column: chars.len() + 1 }));
        }
    }
    Ok(tokens)
}

/// The text from `at` to the closing quote, and the position behind that.
fn string(chars: &[char], mut at: usize) -> Option<(String, usize)> {
    let mut text = String::new();
    loop {
        match *chars.get(at)? {
            '"' => return Some((text, at + 1)),
            '\\' => {
                at += 1;
                text.push(match *chars.get(at)? {
                    'n' => '\n',
                    'r' => '\r',
                    other => other,
                });
            }
            c => text.push(c),
        }
        at += 1;
    }
}

/// A text in quotes.
pub(super) fn quoted(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\r', "\\r");
    format!("\"{escaped}\"")
}

/// Whether a name can stand for a value as it is.
pub(super) fn is_word(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_alphabetic() || c == '_')
        && chars.all(|c| c.is_alphanumeric() || c == '_')
        && !["return", "graph"].contains(&name)
}

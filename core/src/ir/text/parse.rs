//! A graph from text.

use super::attributes::{self, Attribute, Given};
use super::lex::{Place, Token, tokens};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::ir::{Graph, ScalarType, SourceLoc, ValueId};
use crate::layout::{Dims, MAX_RANK};
use smallvec::SmallVec;
use std::collections::{HashMap, HashSet};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

impl FromStr for Graph {
    type Err = Error;

    /// Reads what `Display` prints. An error names line and column and what was expected.
    fn from_str(text: &str) -> Result<Graph> {
        let mut parser = Parser { tokens: tokens(text)?, at: 0, graph: Graph::default(), names: HashMap::new() };
        parser.graph().map_err(|e| e.context("the text of a graph"))?;
        crate::verify::check(&parser.graph)?;
        Ok(parser.graph)
    }
}

struct Parser {
    tokens: Vec<(Token, Place)>,
    at: usize,
    graph: Graph,
    names: HashMap<String, ValueId>,
}

/// Element type, dims and strides.
type Type = (DType, Dims, Dims);

impl Parser {
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).map_or(&Token::End, |(token, _)| token)
    }

    fn place(&self) -> Place {
        let last = self.tokens.last().map(|(_, place)| place.clone());
        let here = self.tokens.get(self.at).map(|(_, place)| place.clone());
        here.or(last).unwrap_or(Place { line: 1, column: 1 })
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    fn expected(&self, what: &str) -> Error {
        let found = match self.peek() {
            Token::Word(word) => format!("`{word}`"),
            Token::Number(number) => format!("`{number}`"),
            Token::Text(_) => "a text".to_owned(),
            Token::Sign(sign) => format!("`{sign}`"),
            Token::End => "the end of the line".to_owned(),
        };
        self.place().error(format!("expected {what}, found {found}"))
    }

    fn sign(&mut self, sign: char) -> Result<()> {
        if self.eat(sign) { Ok(()) } else { Err(self.expected(&format!("`{sign}`"))) }
    }

    fn eat(&mut self, sign: char) -> bool {
        let found = *self.peek() == Token::Sign(sign);
        self.at += found as usize;
        found
    }

    fn end_of_line(&mut self) -> Result<()> {
        if *self.peek() != Token::End {
            return Err(self.expected("the end of the line"));
        }
        self.at += 1;
        Ok(())
    }

    fn word(&mut self, what: &str) -> Result<String> {
        match self.peek() {
            Token::Word(word) => {
                let word = word.clone();
                self.at += 1;
                Ok(word)
            }
            _ => Err(self.expected(what)),
        }
    }

    fn int(&mut self) -> Result<i64> {
        let value = match self.peek() {
            Token::Number(number) => number.parse().ok(),
            _ => None,
        };
        let value = value.ok_or_else(|| self.expected("a whole number"))?;
        self.at += 1;
        Ok(value)
    }

    fn graph(&mut self) -> Result<()> {
        if self.word("`graph`")? != "graph" {
            self.at -= 1;
            return Err(self.expected("`graph`"));
        }
        if let Token::Text(name) = self.peek() {
            self.graph = Graph::new(name.clone());
            self.at += 1;
        }
        self.sign('{')?;
        self.end_of_line()?;
        while *self.peek() != Token::Word("return".to_owned()) {
            self.line()?;
        }
        self.at += 1;
        let mut outputs = Vec::new();
        while *self.peek() != Token::End {
            outputs.push(self.value()?);
            if !self.eat(',') {
                break;
            }
        }
        self.end_of_line()?;
        self.graph.set_outputs(outputs);
        self.sign('}')?;
        self.end_of_line()?;
        if self.at < self.tokens.len() { Err(self.expected("nothing behind the graph")) } else { Ok(()) }
    }

    /// `name = …`, `%3 = …` or `%3 "a name" = …`.
    fn line(&mut self) -> Result<()> {
        let place = self.place();
        let (word, name) = if self.eat('%') {
            if self.int()? != self.graph.values().len() as i64 {
                return Err(place.error(format!("expected %{}: values are numbered from 0", self.graph.values().len())));
            }
            match self.peek().clone() {
                Token::Text(name) => {
                    self.at += 1;
                    (None, Some(name))
                }
                _ => (None, None),
            }
        } else {
            let word = self.word("a value, `return` or `%` with a number")?;
            (Some(word.clone()), Some(word))
        };
        self.sign('=')?;
        let value = self.definition(name.as_deref())?;
        if let Some(name) = &name {
            self.graph.set_name(value, name);
        }
        if let Some(word) = word
            && self.names.insert(word.clone(), value).is_some()
        {
            return Err(place.error(format!("`{word}` is there already")));
        }
        self.end_of_line()
    }

    fn definition(&mut self, name: Option<&str>) -> Result<ValueId> {
        let place = self.place();
        let what = self.word("`input`, `scalar`, `const` or an operation")?;
        match what.as_str() {
            "input" => {
                let (dtype, dims, strides) = self.full_type()?;
                Ok(self.graph.add_input(name.unwrap_or_default(), dtype, dims, strides)).inspect(|&v| {
                    if name.is_none() {
                        self.graph.clear_name(v);
                    }
                })
            }
            "scalar" => {
                let ty = match self.word("f32 or f64")?.as_str() {
                    "f32" => ScalarType::F32,
                    "f64" => ScalarType::F64,
                    _ => return Err(place.error("a scalar is f32 or f64")),
                };
                let value = self.graph.add_scalar(name.unwrap_or_default(), ty);
                if name.is_none() {
                    self.graph.clear_name(value);
                }
                Ok(value)
            }
            "const" => {
                let number = self.number()?;
                Ok(self.graph.add_const(number))
            }
            _ => self.operation(&what, &place),
        }
    }

    fn operation(&mut self, name: &str, place: &Place) -> Result<ValueId> {
        let mut operands: SmallVec<[ValueId; 3]> = SmallVec::new();
        loop {
            operands.push(self.value()?);
            if !self.eat(',') {
                break;
            }
        }
        let given = self.attributes()?;
        let op = attributes::op(name, Given(given)).map_err(|e| place.error(e.message()))?;
        // What is not written is what inference gives.
        let written = matches!(self.peek(), Token::Word(_)).then(|| self.full_type()).transpose()?;
        let loc = self.location()?;
        let value = self.graph.add_node(op, &operands, loc).map_err(|e| place.error(e.message()))?;
        let Some((dtype, dims, strides)) = written else { return Ok(value) };
        let inferred = self.graph.value(value);
        if (inferred.dtype, inferred.dims) != (dtype, dims) {
            let text = format!("`{name}` gives {} {}, not {dtype} {dims}", inferred.dtype, inferred.dims);
            return Err(place.error(text));
        }
        self.graph.set_strides(value, strides);
        Ok(value)
    }

    fn value(&mut self) -> Result<ValueId> {
        let place = self.place();
        if self.eat('%') {
            let index = self.int()?;
            let known = usize::try_from(index).ok().filter(|&i| i < self.graph.values().len());
            return known
                .map(ValueId::from_index)
                .ok_or_else(|| place.error(format!("there is no value %{index} yet")));
        }
        let word = self.word("a value")?;
        self.names.get(&word).copied().ok_or_else(|| place.error(format!("there is no value `{word}` yet")))
    }

    /// `(name value, name value, flag)`, if it is there.
    fn attributes(&mut self) -> Result<Vec<(String, Attribute)>> {
        let mut list = Vec::new();
        if !self.eat('(') {
            return Ok(list);
        }
        loop {
            let name = self.word("an attribute")?;
            let value = match self.peek() {
                Token::Sign('[') => Attribute::Dims(self.list()?),
                Token::Number(number) => match number.parse::<i64>() {
                    Ok(value) => {
                        self.at += 1;
                        Attribute::Int(value)
                    }
                    Err(_) => Attribute::Float(self.number()?),
                },
                Token::Word(word) if is_number(word) => Attribute::Float(self.number()?),
                Token::Word(_) => Attribute::Word(self.word("a word")?),
                _ => Attribute::Flag,
            };
            list.push((name, value));
            if !self.eat(',') {
                break;
            }
        }
        self.sign(')')?;
        Ok(list)
    }

    fn number(&mut self) -> Result<f64> {
        let value = match self.peek() {
            Token::Number(text) if text == "-inf" => Some(f64::NEG_INFINITY),
            Token::Number(text) => text.parse().ok(),
            Token::Word(word) if word == "inf" => Some(f64::INFINITY),
            Token::Word(word) => {
                let bits = word.strip_prefix("nan_").and_then(|bits| u64::from_str_radix(bits, 16).ok());
                bits.map(f64::from_bits).filter(|n| n.is_nan())
            }
            _ => None,
        };
        let value = value.ok_or_else(|| self.expected("a number"))?;
        self.at += 1;
        Ok(value)
    }

    /// `[1, 2]`
    fn list(&mut self) -> Result<Dims> {
        self.sign('[')?;
        let mut values = Vec::new();
        while !self.eat(']') {
            if values.len() == MAX_RANK {
                return Err(self.place().error(format!("more than {MAX_RANK} entries")));
            }
            values.push(self.int()?);
            if !self.eat(',') {
                self.sign(']')?;
                break;
            }
        }
        Ok(Dims::collect(values))
    }

    /// `bf16 [2, 3] channels_last`
    fn full_type(&mut self) -> Result<Type> {
        let place = self.place();
        let word = self.word("an element type")?;
        let dtype = DType::from_name(&word).ok_or_else(|| place.error(format!("`{word}` is no element type")))?;
        let dims = self.list()?;
        if dims.checked_numel().is_none_or(|n| n > i64::MAX / 16) {
            return Err(place.error("dims are not negative, and their product is addressable"));
        }
        let strides = match self.peek().clone() {
            Token::Word(word) if word == "channels_last" => {
                self.at += 1;
                dims.channels_last_strides()
            }
            Token::Word(word) if word == "strides" => {
                self.at += 1;
                self.list()?
            }
            _ => dims.contiguous_strides(),
        };
        if strides.len() != dims.len() || strides.iter().any(|&s| s < 0) {
            return Err(place.error(format!("{} strides that are not negative are expected", dims.len())));
        }
        if crate::layout::span(&dims, &strides).is_none() {
            return Err(place.error("these strides reach beyond what memory can address"));
        }
        Ok((dtype, dims, strides))
    }

    /// `@ "src/net.rs":12:5`, if it is there.
    fn location(&mut self) -> Result<SourceLoc> {
        if !self.eat('@') {
            return Ok(SourceLoc::NONE);
        }
        let file = match self.next() {
            Token::Text(file) => file,
            _ => {
                self.at -= 1;
                return Err(self.expected("a file in quotes"));
            }
        };
        let mut number = || {
            self.sign(':')?;
            let value = self.int()?;
            u32::try_from(value).map_err(|_| self.expected("a line or column"))
        };
        let (line, column) = (number()?, number()?);
        Ok(SourceLoc { file: intern(&file), line, column })
    }
}

fn is_number(word: &str) -> bool {
    word == "inf" || word.strip_prefix("nan_").is_some_and(|bits| bits.len() == 16)
}

/// File names of locations live as long as the process, as those of the compiler do; each is kept once, and no more than so many.
const FILES: usize = 4096;

fn intern(file: &str) -> &'static str {
    static KNOWN: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    if let Some(&file) = known.get(file) {
        return file;
    }
    if known.len() == FILES {
        return "";
    }
    let file: &'static str = Box::leak(file.to_owned().into_boxed_str());
    known.insert(file);
    file
}

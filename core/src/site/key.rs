//! The key of a plan within one function: everything of a call that a plan depends on, compared whole.

use crate::layout::normalise_strides;
use crate::tensor::Tensor;
use smallvec::SmallVec;
use std::any::TypeId;

/// What was written for the arguments of a call. Two calls share a plan exactly when these are equal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    words: SmallVec<[u64; 48]>,
    types: SmallVec<[TypeId; 2]>,
}

/// Takes the key words of a static parameter: see [`Attr`](super::Attr).
#[derive(Debug)]
pub struct KeyWriter<'a>(&'a mut Key);

const TENSOR: u64 = 1;
const ABSENT: u64 = 2;
const SCALAR: u64 = 3;
const ATTR: u64 = 4;

impl Key {
    #[inline]
    pub(crate) fn tensor(&mut self, t: &Tensor) {
        let dims = t.dims();
        let strides = normalise_strides(dims, t.strides());
        let header = TENSOR | (t.dtype() as u64) << 8 | (dims.len() as u64) << 16 | (t.alignment() as u64) << 32;
        self.words.push(header);
        self.words.extend(dims.iter().map(|&d| d as u64));
        self.words.extend(strides.iter().map(|&s| s as u64));
    }

    #[inline]
    pub(crate) fn absent(&mut self) {
        self.words.push(ABSENT);
    }

    #[inline]
    pub(crate) fn scalar(&mut self, double: bool) {
        self.words.push(SCALAR | (double as u64) << 8);
    }

    #[inline]
    pub(crate) fn device(&mut self, id: u64) {
        self.words.push(id);
    }

    #[inline]
    pub(crate) fn attr(&mut self, value: &(impl super::Attr + ?Sized)) {
        self.words.push(ATTR);
        value.encode(&mut KeyWriter(self));
    }

    pub(crate) fn type_param<T: 'static>(&mut self) {
        self.types.push(TypeId::of::<T>());
    }
}

impl KeyWriter<'_> {
    /// Writes a word.
    #[inline]
    pub fn word(&mut self, word: u64) {
        self.0.words.push(word);
    }

    /// Writes bytes, with their number in front so that neighbours cannot run into each other.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
    }
}

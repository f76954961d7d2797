//! Writes a shared library of a few functions as an ELF file.
//!
//! Written here rather than compiled by a build script, so that building the crate needs no C compiler and no linker
//! for the target, and so that `cargo check` and cross-compilation need nothing at all.

/// An instruction set that code is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arch {
    X86_64,
    Aarch64,
}

impl Arch {
    /// That of this program, if code can be written for it.
    pub(crate) fn host() -> Option<Self> {
        if cfg!(target_arch = "x86_64") {
            Some(Self::X86_64)
        } else if cfg!(target_arch = "aarch64") {
            Some(Self::Aarch64)
        } else {
            None
        }
    }

    /// `e_machine`.
    fn machine(self) -> u16 {
        match self {
            Self::X86_64 => 62,
            Self::Aarch64 => 183,
        }
    }
}

/// What a function of the library does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// Returns the number.
    Return(u32),
    /// Stores the first number through its first argument, an `int *`, and returns the second.
    StoreInt(u16, u16),
    /// Stores the number through its second argument, an `int *`, and returns 0.
    StoreIntSecond(u16),
    /// Stores a null pointer through its first argument and returns 0.
    StoreNull,
    /// Stores the address of this text through its second argument and returns 0.
    StoreText(&'static str),
}

impl Body {
    /// Machine code, position-independent, followed by what it refers to.
    pub(crate) fn code(self, arch: Arch) -> Vec<u8> {
        match arch {
            Arch::X86_64 => self.x86_64(),
            Arch::Aarch64 => self.aarch64(),
        }
    }

    fn x86_64(self) -> Vec<u8> {
        // xor eax, eax; ret
        const RETURN_0: [u8; 3] = [0x31, 0xC0, 0xC3];
        match self {
            Self::Return(value) => [&[0xB8][..], &value.to_le_bytes(), &[0xC3]].concat(), // mov eax, value; ret
            // mov dword [rdi], value; mov eax, answer; ret
            Self::StoreInt(value, answer) => {
                let ([v0, v1], [a0, a1]) = (value.to_le_bytes(), answer.to_le_bytes());
                vec![0xC7, 0x07, v0, v1, 0, 0, 0xB8, a0, a1, 0, 0, 0xC3]
            }
            Self::StoreIntSecond(value) => {
                let [low, high] = value.to_le_bytes();
                [&[0xC7, 0x06, low, high, 0, 0][..], &RETURN_0].concat() // mov dword [rsi], value
            }
            Self::StoreNull => [&[0x48, 0xC7, 0x07, 0, 0, 0, 0][..], &RETURN_0].concat(), // mov qword [rdi], 0
            // lea rax, [rip + 6]: the text begins 6 bytes after this instruction; mov [rsi], rax
            Self::StoreText(text) => {
                [&[0x48, 0x8D, 0x05, 6, 0, 0, 0, 0x48, 0x89, 0x06][..], &RETURN_0, text.as_bytes(), &[0]].concat()
            }
        }
    }

    fn aarch64(self) -> Vec<u8> {
        const RETURN: u32 = 0xD65F_03C0;
        const MOVZ_W: u32 = 0x5280_0000; // movz w(bits 0..5), #(bits 5..21)
        const MOVK_W: u32 = 0x72A0_0000; // movk w(bits 0..5), #(bits 5..21), lsl #16
        let movz = |register: u32, value: u16| MOVZ_W | u32::from(value) << 5 | register;
        let (words, text) = match self {
            Self::Return(value) => (vec![movz(0, value as u16), MOVK_W | value >> 16 << 5, RETURN], ""),
            // str w2, [x0]
            Self::StoreInt(value, answer) => (vec![movz(2, value), 0xB900_0002, movz(0, answer), RETURN], ""),
            Self::StoreIntSecond(value) => (vec![movz(2, value), 0xB900_0022, movz(0, 0), RETURN], ""), // str w2, [x1]
            Self::StoreNull => (vec![0xF900_001F, movz(0, 0), RETURN], ""),                             // str xzr, [x0]
            // adr x2, . + 16: the text begins after these four instructions; str x2, [x1]
            Self::StoreText(text) => (vec![0x1000_0082, 0xF900_0022, movz(0, 0), RETURN], text),
        };
        words.iter().flat_map(|word| word.to_le_bytes()).chain(text.bytes()).chain([0]).collect()
    }
}

/// Size of a file header, a program header, a symbol and a dynamic entry, as ELF64 has them.
const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;
const SYMBOL: usize = 24;

const PROGRAM_HEADERS: usize = 4;

/// The largest page that Linux uses on either architecture.
const PAGE: u64 = 0x1_0000;

// p_type and p_flags of program headers.
const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_GNU_STACK: u32 = 0x6474_E551;
const READ_EXECUTE: u32 = 5;
const READ_WRITE: u32 = 6;

/// A shared library of this name that exports these functions.
///
/// One segment holds headers, symbols and code. The other holds the dynamic section, which older dynamic linkers write
/// to: it follows in the file and is mapped one page further on.
pub(crate) fn shared_library(arch: Arch, soname: &str, functions: &[(&str, Body)]) -> Vec<u8> {
    let hash_at = HEADER + PROGRAM_HEADERS * PROGRAM_HEADER;
    let hash = hash_table(functions.len());
    let symbols_at = (hash_at + hash.len()).next_multiple_of(8);
    let strings_at = symbols_at + (functions.len() + 1) * SYMBOL;
    let (strings, soname_at, names_at) = string_table(soname, functions);
    let code_at = (strings_at + strings.len()).next_multiple_of(16);
    let (code, bodies_at) = code_of(arch, functions);
    let dynamic_at = (code_at + code.len()).next_multiple_of(16);
    let dynamic = dynamic_section(soname_at, hash_at, strings_at, strings.len(), symbols_at);

    let mut file = file_header(arch);
    let (read, write) = (dynamic_at as u64, dynamic.len() as u64);
    program_header(&mut file, PT_LOAD, READ_EXECUTE, (0, 0), read, PAGE);
    program_header(&mut file, PT_LOAD, READ_WRITE, (read, read + PAGE), write, PAGE);
    program_header(&mut file, PT_DYNAMIC, READ_WRITE, (read, read + PAGE), write, 8);
    // Without this one a dynamic linker takes it that the stack must be executable, and may refuse.
    program_header(&mut file, PT_GNU_STACK, READ_WRITE, (0, 0), 0, 16);
    file.extend(hash);
    file.resize(symbols_at, 0);
    file.extend([0; SYMBOL]);
    for ((name_at, body_at), next) in names_at.iter().zip(&bodies_at).zip(bodies_at.iter().skip(1)) {
        symbol(&mut file, *name_at, code_at + body_at, next - body_at);
    }
    file.extend(strings);
    file.resize(code_at, 0);
    file.extend(code);
    file.resize(dynamic_at, 0);
    file.extend(dynamic);
    file
}

fn file_header(arch: Arch) -> Vec<u8> {
    let mut header = vec![0x7F, b'E', b'L', b'F', 2, 1, 1]; // 64 bits, little-endian, version 1
    header.resize(16, 0);
    header.extend(3_u16.to_le_bytes()); // a shared object
    header.extend(arch.machine().to_le_bytes());
    header.extend(1_u32.to_le_bytes());
    header.extend(0_u64.to_le_bytes()); // no entry point
    header.extend((HEADER as u64).to_le_bytes());
    header.extend(0_u64.to_le_bytes()); // no sections
    header.extend(0_u32.to_le_bytes());
    for half in [HEADER, PROGRAM_HEADER, PROGRAM_HEADERS, 64, 0, 0] {
        header.extend((half as u16).to_le_bytes());
    }
    header
}

fn program_header(file: &mut Vec<u8>, kind: u32, flags: u32, (offset, address): (u64, u64), size: u64, align: u64) {
    file.extend(kind.to_le_bytes());
    file.extend(flags.to_le_bytes());
    for word in [offset, address, address, size, size, align] {
        file.extend(word.to_le_bytes());
    }
}

/// One bucket whose chain holds every symbol: a search compares names and needs no hash of them.
fn hash_table(functions: usize) -> Vec<u8> {
    let count = functions as u32 + 1;
    let chain = (1..count).map(|index| if index + 1 < count { index + 1 } else { 0 });
    [1, count, u32::from(count > 1), 0].into_iter().chain(chain).flat_map(u32::to_le_bytes).collect()
}

/// The table, where in it the soname stands, and where the names of the functions.
fn string_table(soname: &str, functions: &[(&str, Body)]) -> (Vec<u8>, usize, Vec<usize>) {
    let mut table = vec![0];
    let mut add = |text: &str| {
        let at = table.len();
        table.extend(text.bytes());
        table.push(0);
        at
    };
    let soname_at = add(soname);
    let names_at = functions.iter().map(|(name, _)| add(name)).collect();
    (table, soname_at, names_at)
}

/// The code, and where in it each function begins; the end of the last one stands behind them.
fn code_of(arch: Arch, functions: &[(&str, Body)]) -> (Vec<u8>, Vec<usize>) {
    let mut code = vec![];
    let mut bodies_at = vec![];
    for (_, body) in functions {
        bodies_at.push(code.len());
        code.extend(body.code(arch));
        code.resize(code.len().next_multiple_of(16), 0);
    }
    bodies_at.push(code.len());
    (code, bodies_at)
}

fn symbol(file: &mut Vec<u8>, name_at: usize, address: usize, size: usize) {
    const GLOBAL_FUNCTION: u8 = 1 << 4 | 2;
    const DEFINED: u16 = 1; // any section but "undefined"
    file.extend((name_at as u32).to_le_bytes());
    file.extend([GLOBAL_FUNCTION, 0]);
    file.extend(DEFINED.to_le_bytes());
    file.extend((address as u64).to_le_bytes());
    file.extend((size as u64).to_le_bytes());
}

fn dynamic_section(soname: usize, hash: usize, strings: usize, strings_size: usize, symbols: usize) -> Vec<u8> {
    // DT_SONAME, DT_HASH, DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_SYMENT, DT_NULL
    [(14, soname), (4, hash), (5, strings), (6, symbols), (10, strings_size), (11, SYMBOL), (0, 0)]
        .into_iter()
        .flat_map(|(tag, value)| [tag as u64, value as u64])
        .flat_map(u64::to_le_bytes)
        .collect()
}

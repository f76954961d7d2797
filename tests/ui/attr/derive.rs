use fused_graph::Attr;

struct Plain;

#[derive(Attr)]
struct Holds {
    plain: Plain,
    number: u8,
}

#[derive(Attr)]
union Either {
    a: u8,
    b: i8,
}

#[derive(Attr)]
#[attr(skip)]
struct Optioned(u8);

fn main() {}

// Written by the test `the_example_shows_what_the_macro_makes` of the macros.
/// y = relu(alpha · x·w + b).
pub fn linear(
    x: &Tensor,
    w: &Tensor,
    b: Option<&Tensor>,
    alpha: f32,
) -> ::fused_graph::Result<Tensor> {
    linear::__call(x, w, b, alpha).run()
}
/// Bound calls, plans, reports and the traced graph of [`linear`](fn@linear).
pub enum linear {}
impl linear {
    /// The body of `linear` over symbolic tensors. Called inside another annotated function it becomes part of that one.
    #[must_use]
    pub fn expr(
        x: ::fused_graph::Expr,
        w: ::fused_graph::Expr,
        b: Option<::fused_graph::Expr>,
        alpha: ::fused_graph::Expr,
    ) -> ::fused_graph::Expr {
        let y = alpha * matmul(x, w);
        relu(
            match b {
                Some(b) => y + b,
                None => y,
            },
        )
    }
    /// A call with these arguments fixed and results of its own, to be launched many times or captured in a CUDA graph.
    pub fn bind(
        x: &Tensor,
        w: &Tensor,
        b: Option<&Tensor>,
        alpha: f32,
    ) -> ::fused_graph::Result<::fused_graph::Bound<Tensor>> {
        Self::__call(x, w, b, alpha).bind()
    }
    /// The plan for these arguments, built and cached if it was not there yet. Nothing is launched.
    pub fn plan(
        x: &Tensor,
        w: &Tensor,
        b: Option<&Tensor>,
        alpha: f32,
    ) -> ::fused_graph::Result<::fused_graph::Plan> {
        Self::__call(x, w, b, alpha).plan()
    }
    /// Times every engine for these arguments, which are only read, and keeps the fastest for the calls that follow.
    pub fn tune(
        x: &Tensor,
        w: &Tensor,
        b: Option<&Tensor>,
        alpha: f32,
    ) -> ::fused_graph::Result<::fused_graph::TuneReport> {
        Self::__call(x, w, b, alpha).tune()
    }
    /// Which operations went into which kernel for these arguments, and why.
    pub fn explain(
        x: &Tensor,
        w: &Tensor,
        b: Option<&Tensor>,
        alpha: f32,
    ) -> ::fused_graph::Result<::fused_graph::Explain> {
        Self::__call(x, w, b, alpha).explain()
    }
    /// The traced graph for these arguments, before it is divided into kernels.
    pub fn graph(
        x: &Tensor,
        w: &Tensor,
        b: Option<&Tensor>,
        alpha: f32,
    ) -> ::fused_graph::Result<::fused_graph::Graph> {
        Self::__call(x, w, b, alpha).graph()
    }
    /// Calls, cache hits and plans built so far, over all instances of the function.
    pub fn stats() -> ::fused_graph::Stats {
        Self::__site().stats()
    }
    /// Makes a plan that another process wrote with `to_bytes` known to this one: the next call with its signature compiles nothing.
    pub fn load(
        device: &::fused_graph::Device,
        bytes: &[u8],
    ) -> ::fused_graph::Result<()> {
        Self::__site().load(device, bytes)
    }
    /// Drops the cached plans of the function; the next call builds its plan anew.
    pub fn clear() {
        Self::__site().clear()
    }
    #[doc(hidden)]
    fn __site() -> &'static ::fused_graph::__private::Site {
        use ::fused_graph::__private::{Binding, Meta, Options, Site};
        static SITE: Site = Site::new(Meta {
            name: "linear",
            module: ::core::module_path!(),
            file: ::core::file!(),
            line: 3,
            params: &["x", "w", "b", "alpha"],
            bindings: &[
                Binding {
                    name: "y",
                    start: (4, 13),
                    end: (4, 33),
                },
            ],
            options: Options {
                tf32: false,
                ..Options::DEFAULT
            },
        });
        &SITE
    }
    #[doc(hidden)]
    fn __call<'__fg>(
        x: &'__fg Tensor,
        w: &'__fg Tensor,
        b: Option<&'__fg Tensor>,
        alpha: f32,
    ) -> ::fused_graph::__private::Call<
        '__fg,
        impl ::core::ops::FnOnce(
            &::fused_graph::__private::Inputs,
        ) -> ::fused_graph::Expr,
    > {
        ::fused_graph::__private::Call::new(Self::__site())
            .tensor(x)
            .tensor(w)
            .optional(b)
            .scalar(alpha)
            .trace(move |inputs| Self::expr(
                inputs.tensor(0),
                inputs.tensor(1),
                inputs.optional(2),
                inputs.scalar(3),
            ))
    }
}

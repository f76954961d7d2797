//! `Display` of [`Explain`]: a picture of each kernel, and what it costs.

use super::{Explain, KernelReport};
use std::fmt::{self, Display, Formatter};

impl Display for Explain {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} on {}", self.function, self.device)?;
        for argument in &self.arguments {
            writeln!(f, "  {argument}")?;
        }
        let count = self.kernels.len();
        let moved = Traffic { bytes: self.bytes(), unfused: self.unfused_bytes() };
        let kernels = if count == 1 { "1 kernel that moves".to_owned() } else { format!("{count} kernels that move") };
        write!(f, "{kernels} {moved}")?;
        if self.flops() > 0 {
            write!(f, " and compute{} {}", if count == 1 { "s" } else { "" }, Count(self.flops(), "FLOP"))?;
        }
        writeln!(f, "; plan {}", self.source)?;
        for (i, kernel) in self.kernels.iter().enumerate() {
            writeln!(f)?;
            write_kernel(f, kernel, i + 1, count)?;
        }
        if !self.cuts.is_empty() {
            writeln!(f, "\nwhat goes through memory between kernels, and why")?;
        }
        let mut reasons: Vec<&str> = Vec::new();
        for (_, reason) in &self.cuts {
            if !reasons.contains(&reason.as_str()) {
                reasons.push(reason);
            }
        }
        for reason in reasons {
            let values: Vec<&str> = self.cuts.iter().filter(|c| c.1 == reason).map(|c| c.0.as_str()).collect();
            entry(f, &values.join(", "), reason)?;
        }
        Ok(())
    }
}

fn write_kernel(f: &mut Formatter<'_>, k: &KernelReport, number: usize, count: usize) -> fmt::Result {
    write!(f, "kernel {number}")?;
    if count > 1 {
        write!(f, " of {count}")?;
    }
    let engine = if k.engine.is_empty() { String::new() } else { format!(", {}", k.engine) };
    writeln!(f, ": {}{engine}", k.provider)?;
    picture(f, k)?;
    writeln!(f, "  moves {}", Traffic { bytes: k.bytes, unfused: k.unfused_bytes })?;
    writeln!(f, "  {}", facts(k).join(", "))?;
    for refused in &k.refused {
        entry(f, "declined", refused)?;
    }
    for note in &k.notes {
        entry(f, "note", note)?;
    }
    Ok(())
}

/// The operations from top to bottom, with what leaves the kernel and where each was written.
fn picture(f: &mut Formatter<'_>, k: &KernelReport) -> fmt::Result {
    let line = |i: usize| {
        let results: Vec<&str> = k.results.iter().filter(|(at, _)| *at == i).map(|(_, name)| name.as_str()).collect();
        let arrow = if results.is_empty() { String::new() } else { format!(" ─▶ {}", results.join(", ")) };
        format!("{}{arrow}", k.operations[i])
    };
    let lines: Vec<String> = (0..k.operations.len()).map(line).collect();
    let width = lines.iter().map(|l| l.chars().count()).max().unwrap_or(0);
    for (i, line) in lines.iter().enumerate() {
        let edge = match (i, lines.len()) {
            (_, 1) => '─',
            (0, _) => '┌',
            (i, n) if i + 1 == n => '└',
            _ => '│',
        };
        match k.places.get(i).filter(|p| !p.is_empty()) {
            Some(place) => writeln!(f, "  {edge} {line:width$}   {place}")?,
            None => writeln!(f, "  {edge} {line}")?,
        }
    }
    Ok(())
}

fn facts(k: &KernelReport) -> Vec<String> {
    let mut facts = Vec::new();
    if k.flops > 0 {
        facts.push(Count(k.flops, "FLOP").to_string());
    }
    if k.flops > 0 && k.bytes > 0 {
        facts.push(format!("{:.0} FLOP a byte", k.flops as f64 / k.bytes as f64));
    }
    facts.push(match k.workspace {
        0 => "no workspace".to_owned(),
        n => format!("{} of workspace", Count(n, "B")),
    });
    if k.build_ms > 0.0 {
        facts.push(format!("built in {}", Time(k.build_ms)));
    }
    facts
}

/// `  label: text`, further lines of the text indented behind it.
fn entry(f: &mut Formatter<'_>, label: &str, text: &str) -> fmt::Result {
    let mut lines = text.trim_end().lines();
    writeln!(f, "  {label}: {}", lines.next().unwrap_or(""))?;
    lines.try_for_each(|line| writeln!(f, "    {line}"))
}

/// Bytes against those of the unfused sequence.
struct Traffic {
    bytes: u64,
    unfused: u64,
}

impl Display for Traffic {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Count(self.bytes, "B"))?;
        if self.unfused > self.bytes {
            let ratio = self.unfused as f64 / self.bytes.max(1) as f64;
            write!(f, " (one kernel an operation would move {}, {ratio:.1}×)", Count(self.unfused, "B"))?;
        }
        Ok(())
    }
}

/// A count with a decimal prefix and its unit.
struct Count(u64, &'static str);

impl Display for Count {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Count(n, unit) = *self;
        if n < 1000 {
            return write!(f, "{n} {unit}");
        }
        let mut scaled = n as f64 / 1000.0;
        let mut prefixes = ["k", "M", "G", "T", "P", "E"].into_iter();
        let mut prefix = prefixes.next().unwrap_or("");
        // 999.95 would print as 1000.0.
        while scaled >= 999.95
            && let Some(next) = prefixes.next()
        {
            scaled /= 1000.0;
            prefix = next;
        }
        write!(f, "{scaled:.1} {prefix}{unit}")
    }
}

/// Milliseconds.
struct Time(f64);

impl Display for Time {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            ms if ms >= 1000.0 => write!(f, "{:.1} s", ms / 1000.0),
            ms if ms >= 10.0 => write!(f, "{ms:.0} ms"),
            ms => write!(f, "{ms:.2} ms"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::PlanSource;
    use super::*;

    #[test]
    fn numbers_are_short() {
        let counts = [0, 999, 1000, 999_949, 999_950, 12_600_000, 4_290_000_000, u64::MAX];
        let texts: Vec<String> = counts.iter().map(|&n| Count(n, "B").to_string()).collect();
        assert_eq!(texts, ["0 B", "999 B", "1.0 kB", "999.9 kB", "1.0 MB", "12.6 MB", "4.3 GB", "18.4 EB"]);
        let times: Vec<String> =
            [0.123, 9.999, 10.4, 631.2, 1000.0, 12345.0].iter().map(|&t| Time(t).to_string()).collect();
        assert_eq!(times, ["0.12 ms", "10.00 ms", "10 ms", "631 ms", "1.0 s", "12.3 s"]);
    }

    fn explain() -> Explain {
        let first = KernelReport {
            operations: ["matmul x, w", "mul alpha", "add b", "gelu", "amax"].map(str::to_owned).to_vec(),
            places: ["src/net.rs:8", "src/net.rs:8", "src/net.rs:8", "src/net.rs:8", "src/net.rs:10"]
                .map(str::to_owned)
                .to_vec(),
            results: vec![(3, "y (result 1)".to_owned()), (4, "amax".to_owned())],
            provider: "cuDNN",
            engine: "engine 4 (tile 128x128)".to_owned(),
            workspace: 16_384,
            bytes: 12_600_000,
            unfused_bytes: 38_100_000,
            flops: 4_290_000_000,
            build_ms: 631.0,
            refused: vec!["engine 9: wants sm_100\nand later".to_owned()],
            notes: vec!["`b` is copied first: its rows are not dense".to_owned()],
        };
        let second = KernelReport {
            operations: vec!["exp y".to_owned()],
            results: vec![(0, "exp".to_owned())],
            provider: "nvrtc",
            bytes: 2000,
            unfused_bytes: 2000,
            ..KernelReport::default()
        };
        Explain {
            function: "linear_gelu_amax".to_owned(),
            device: "NVIDIA H200 (sm_90), cuDNN 9.19.0".to_owned(),
            arguments: vec!["x: bf16 [4, 128, 64], row-major".to_owned(), "alpha: f32, by value".to_owned()],
            kernels: vec![first, second],
            cuts: ["y", "amax"]
                .map(|v| (v.to_owned(), "R04: a reduction is the exit of its kernel".to_owned()))
                .to_vec(),
            source: PlanSource::Built,
        }
    }

    #[test]
    fn an_explanation_reads_like_this() {
        let text = "\
linear_gelu_amax on NVIDIA H200 (sm_90), cuDNN 9.19.0
  x: bf16 [4, 128, 64], row-major
  alpha: f32, by value
2 kernels that move 12.6 MB (one kernel an operation would move 38.1 MB, 3.0×) and compute 4.3 GFLOP; plan built now

kernel 1 of 2: cuDNN, engine 4 (tile 128x128)
  ┌ matmul x, w            src/net.rs:8
  │ mul alpha              src/net.rs:8
  │ add b                  src/net.rs:8
  │ gelu ─▶ y (result 1)   src/net.rs:8
  └ amax ─▶ amax           src/net.rs:10
  moves 12.6 MB (one kernel an operation would move 38.1 MB, 3.0×)
  4.3 GFLOP, 340 FLOP a byte, 16.4 kB of workspace, built in 631 ms
  declined: engine 9: wants sm_100
    and later
  note: `b` is copied first: its rows are not dense

kernel 2 of 2: nvrtc
  ─ exp y ─▶ exp
  moves 2.0 kB
  no workspace

what goes through memory between kernels, and why
  y, amax: R04: a reduction is the exit of its kernel
";
        assert_eq!(explain().to_string(), text);
    }

    #[test]
    fn assert_fused_counts_kernels_and_shows_them() {
        let explain = explain();
        crate::assert_fused!(explain, kernels = 2);
        crate::assert_fused!(&explain, kernels = 2,);
        let text = super::super::expect_kernels(&explain, 1).unwrap_err();
        assert!(text.starts_with("`linear_gelu_amax` should be 1 kernel but is 2 kernels:\n\n"), "{text}");
        assert!(text.contains("R04") && text.contains("┌ matmul x, w"), "{text}");
        assert!(std::panic::catch_unwind(|| crate::assert_fused!(explain, kernels = 3)).is_err());
    }
}

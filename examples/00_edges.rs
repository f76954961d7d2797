//! The edges of a photograph, coloured by their direction: eight oriented filters as one convolution with bias and ReLU,
//! and the largest response (AMAX) in the same kernel, to scale the picture by.
//!
//! `cargo run --release --example 00_edges [input.png [output.png]]`

use fused_graph::prelude::*;
use std::error::Error;
use std::f32::consts::PI;

/// Responses of the filters to the picture, and the largest of them.
#[fused_graph]
pub fn edges(picture: &Tensor, filters: &Tensor, threshold: &Tensor) -> (Tensor, Tensor) {
    let response = relu(conv2d(picture, filters, bias = threshold, padding = "same"));
    (response, amax(response))
}

const DIRECTIONS: usize = 8;
const RADIUS: i32 = 3;
const SIZE: usize = 2 * RADIUS as usize + 1;

fn main() -> Result<(), Box<dyn Error>> {
    let mut paths = std::env::args().skip(1);
    // A bundle for another machine names its own root.
    let root = std::env::var("FUSED_GRAPH_ROOT").unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").into());
    let input = paths.next().unwrap_or_else(|| format!("{root}/examples/data/coffee.png"));
    let output = paths.next().unwrap_or_else(|| "target/00_edges.png".into());

    let (width, height, rgb) = read_png(&input)?;
    let device = Device::best()?;
    println!("{input}: {width} x {height}, on {device}");

    let picture = Tensor::from_slice(&rgb, [1, height, width, 3], &device)?.permute([0, 3, 1, 2])?;
    let weights = filters();
    let filters = Tensor::from_slice(&weights, [DIRECTIONS, 3, SIZE, SIZE], &device)?.channels_last()?;
    let threshold = Tensor::full([DIRECTIONS], -0.04, DType::F32, &device)?;

    let (response, largest) = edges(&picture, &filters, &threshold)?;
    let kernels = edges::plan(&picture, &filters, &threshold)?.kernels();
    let (values, largest) = (response.to_vec::<f32>()?, largest.to_vec::<f32>()?[0]);
    check(&rgb, &weights, &values, largest, width, height);

    write_png(&output, width, height, &colour(&values, largest, width * height))?;
    println!(
        "{DIRECTIONS} filters of {SIZE} x {SIZE} with threshold and ReLU, and their largest response {largest:.3}: {kernels} kernel(s)"
    );
    println!("wrote {output}");
    Ok(())
}

/// Derivatives of a Gaussian along eight directions, over the three colours.
fn filters() -> Vec<f32> {
    let mut out = Vec::new();
    for direction in 0..DIRECTIONS {
        let angle = 2.0 * PI * direction as f32 / DIRECTIONS as f32;
        for _colour in 0..3 {
            for y in -RADIUS..=RADIUS {
                for x in -RADIUS..=RADIUS {
                    let (x, y) = (x as f32, y as f32);
                    let along = x * angle.cos() + y * angle.sin();
                    out.push(along * (-(x * x + y * y) / 4.5).exp() / 45.0);
                }
            }
        }
    }
    out
}

/// A few responses and the largest one, worked out by hand.
fn check(rgb: &[f32], weights: &[f32], values: &[f32], largest: f32, width: usize, height: usize) {
    for (direction, y, x) in [(0, 0, 0), (3, height / 2, width / 2), (5, 40, 200), (7, height - 1, width - 1)] {
        let mut sum = -0.04f64;
        for colour in 0..3 {
            for r in 0..SIZE {
                for s in 0..SIZE {
                    let (py, px) = (y as i32 + r as i32 - RADIUS, x as i32 + s as i32 - RADIUS);
                    if (0..height as i32).contains(&py) && (0..width as i32).contains(&px) {
                        let pixel = rgb[(py as usize * width + px as usize) * 3 + colour];
                        let weight = weights[((direction * 3 + colour) * SIZE + r) * SIZE + s];
                        sum += pixel as f64 * weight as f64;
                    }
                }
            }
        }
        let got = values[(direction * height + y) * width + x] as f64;
        // A GPU may round the operands of an F32 convolution to TF32.
        assert!(
            (got - sum.max(0.0)).abs() < 2e-3,
            "direction {direction} at ({x}, {y}): {got}, by hand {}",
            sum.max(0.0)
        );
    }
    let by_hand = values.iter().fold(0.0f32, |m, v| m.max(v.abs()));
    assert!((largest - by_hand).abs() <= 1e-6 * by_hand, "AMAX {largest}, by hand {by_hand}");
}

/// Hue by the direction of the strongest response, brightness by its strength.
fn colour(values: &[f32], largest: f32, pixels: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(pixels * 3);
    for p in 0..pixels {
        let at = |d: usize| values[d * pixels + p];
        let best = (0..DIRECTIONS).max_by(|&a, &b| at(a).total_cmp(&at(b))).unwrap_or(0);
        let value = (at(best) / largest).sqrt();
        let hue = 6.0 * best as f32 / DIRECTIONS as f32;
        for shift in [0.0, 4.0, 2.0] {
            let h = (hue + shift) % 6.0;
            let share = (2.0 - (h - 3.0).abs()).clamp(0.0, 1.0);
            out.push((255.0 * value * (1.0 - 0.8 * share)) as u8);
        }
    }
    out
}

fn read_png(path: &str) -> Result<(usize, usize, Vec<f32>), Box<dyn Error>> {
    let file = std::fs::File::open(path).map_err(|e| format!("{path}: {e}"))?;
    let mut decoder = png::Decoder::new(std::io::BufReader::new(file));
    decoder.set_transformations(png::Transformations::EXPAND | png::Transformations::STRIP_16);
    let mut reader = decoder.read_info()?;
    let mut bytes = vec![0; reader.output_buffer_size().ok_or("the picture is too large")?];
    let info = reader.next_frame(&mut bytes)?;
    let samples = info.color_type.samples();
    let pixels = bytes[..info.buffer_size()].chunks_exact(samples);
    let rgb = pixels.flat_map(|p| (0..3).map(|c| p[if samples < 3 { 0 } else { c }] as f32 / 255.0)).collect();
    Ok((info.width as usize, info.height as usize, rgb))
}

fn write_png(path: &str, width: usize, height: usize, rgb: &[u8]) -> Result<(), Box<dyn Error>> {
    if let Some(folder) = std::path::Path::new(path).parent() {
        std::fs::create_dir_all(folder)?;
    }
    let file = std::fs::File::create(path).map_err(|e| format!("{path}: {e}"))?;
    let mut encoder = png::Encoder::new(std::io::BufWriter::new(file), width as u32, height as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.write_header()?.write_image_data(rgb)?;
    Ok(())
}
